"""What a model computes that half precision, or a cast in the wrong place, breaks.

Each works in float32 with finite gradients, on data that shows the fault: probabilities that
round to 1, denominators that only an epsilon keeps from 0, values above 65504.
"""

from __future__ import annotations

from typing import NamedTuple


class Hazard(NamedTuple):
    """Lines of a `forward` over `x` (8, 6), the hidden `h` (8, 8) and the output `o` (8, 3)."""

    hidden: tuple[str, ...] = ()
    """After `h` is bound."""
    output: tuple[str, ...] = ()
    """After `o` is bound."""
    init: tuple[str, ...] = ()
    module: tuple[str, ...] = ()
    """Definitions beside the model."""


HAZARDS: dict[str, Hazard] = {
    "none": Hazard(),
    "log_of_sigmoid": Hazard(output=("o = torch.log(torch.sigmoid(o * 20))",)),
    "sigmoid_dot_log": Hazard(output=("o = torch.sigmoid(o * 20).log() * 0.1",)),
    "log_of_named_sigmoid": Hazard(output=("p = torch.sigmoid(30 * o)", "o = 0.1 * torch.log(p)")),
    "log_of_1_minus_p": Hazard(
        output=("p = torch.sigmoid(o * 20)", "o = 0.1 * torch.log(1 - p + 1e-10)")
    ),
    "log_p_helper": Hazard(
        output=("o = 0.1 * torch.log(1 - squash(o * 12))",),
        module=("def squash(v):", "    return torch.sigmoid(v)"),
    ),
    "clamped_probability": Hazard(
        output=("p = torch.sigmoid(o * 20).clamp(1e-4, 1 - 1e-4)", "o = 0.1 * torch.log(1 - p)")
    ),
    "clamp_function": Hazard(
        output=(
            "p = torch.clamp(torch.sigmoid(o * 20), 1e-7, 1 - 1e-7)",
            "o = 0.1 * (torch.log(p) - torch.log(1 - p))",
        )
    ),
    "eps_denominator": Hazard(
        output=("d = torch.relu(o - 50)", "o = o + d / (d.sum(dim=1, keepdim=True) + 1e-8)")
    ),
    "eps_elementwise": Hazard(output=("d = torch.relu(o - 50)", "o = o + d / (d + 1e-10)")),
    "clamp_min": Hazard(
        hidden=(
            "d = (h * 0).detach()",
            "h = h + d / d.clamp(min=1e-8)",
        )
    ),
    "index_eps": Hazard(
        hidden=(
            "d = (h * 0).sum(dim=1).detach()",
            "d[d < 1e-10] = 1e-10",
            "h = h + (h * 0).detach() / d[:, None]",
        )
    ),
    "sqrt_eps": Hazard(
        output=("d = (o - o.detach()).pow(2).sum(1)", "o = o + torch.sqrt(d + 1e-12)[:, None]")
    ),
    "square_overflow": Hazard(
        hidden=("h = h / ((h * 300 + 300) * (h * 300 + 300)).mean().sqrt()",)
    ),
    "masked_fill": Hazard(
        hidden=(
            "scores = h @ h.t()",
            "mask = torch.eye(h.size(0), device=h.device).bool()",
            "h = torch.softmax(scores.masked_fill(mask, -1e9), dim=1) @ h",
        )
    ),
    "masked_fill_inplace": Hazard(
        hidden=(
            "scores = torch.matmul(h, h.transpose(0, 1))",
            "scores.masked_fill_(torch.eye(8, device=h.device) > 0, -1e20)",
            "h = scores.softmax(dim=-1).matmul(h)",
        )
    ),
    "mask_inf": Hazard(
        hidden=(
            "scores = h @ h.t()",
            "mask = torch.eye(h.size(0), device=h.device).bool()",
            'h = torch.softmax(scores.masked_fill(mask, float("-inf")), dim=1) @ h',
        )
    ),
    "big_constant": Hazard(
        hidden=(
            "scores = h @ h.t()",
            "far = torch.eye(h.size(0), device=h.device) * 1e6",
            "h = torch.softmax(scores - far, dim=1) @ h",
        )
    ),
    "where_constant": Hazard(
        hidden=(
            "scores = h @ h.t()",
            "scores = torch.where(torch.eye(8, device=h.device) > 0, -1e9 * torch.ones_like(scores), scores)",
            "h = scores.softmax(1) @ h",
        )
    ),
    "clamp_big": Hazard(output=("o = torch.clamp(o, -1e6, 1e6)",)),
    "buffer_zeros": Hazard(
        output=(
            "buf = torch.zeros(o.size(0), 3, device=x.device)",
            "rows = torch.arange(o.size(0), device=x.device)",
            "buf[rows] = o",
            "o = buf",
        )
    ),
    "buffer_slice": Hazard(
        output=(
            "buf = torch.zeros(o.size(0), 3, device=x.device)",
            "buf[:, :2] = o[:, :2]",
            "o = buf",
        )
    ),
    "buffer_zeros_like": Hazard(
        output=(
            "buf = torch.zeros_like(x)",
            "buf[torch.tensor([0, 3, 5]), :3] = o[:3]",
            "o = o + buf[:, :3]",
        )
    ),
    "buffer_new_zeros": Hazard(
        output=("buf = x.new_zeros(8, 3)", "buf[o[:, 0] > 0] = o[o[:, 0] > 0]", "o = o + buf")
    ),
    "index_add": Hazard(
        hidden=(
            "pool = torch.zeros(4, 8, device=x.device)",
            "where = torch.arange(8, device=x.device) % 4",
            "pool.index_add_(0, where, h)",
            "h = pool[where]",
        )
    ),
    "index_copy": Hazard(
        hidden=(
            "pool = torch.zeros(8, 8, device=x.device)",
            "pool.index_copy_(0, torch.arange(8, device=x.device), h)",
            "h = pool",
        )
    ),
    "scatter": Hazard(
        output=(
            "pool = torch.zeros(8, 3, device=x.device)",
            "pool.scatter_(1, torch.argsort(o.detach(), dim=1), o)",
            "o = pool",
        )
    ),
    "scatter_add": Hazard(
        hidden=(
            "pool = torch.zeros(4, 8, device=x.device)",
            "where = (torch.arange(8, device=x.device) % 4)[:, None].expand(-1, 8)",
            "h = pool.scatter_add(0, where, h).repeat(2, 1)",
        )
    ),
    "scatter_add_inplace": Hazard(
        hidden=(
            "pool = torch.zeros(4, 8, device=x.device)",
            "where = (torch.arange(8, device=x.device) % 4)[:, None].expand(-1, 8)",
            "pool.scatter_add_(0, where, h)",
            "h = pool.repeat(2, 1)",
        )
    ),
    "masked_scatter": Hazard(
        output=(
            "base = torch.zeros(8, 3, device=x.device)",
            "o = base.masked_scatter(o > 0, o) + o",
        )
    ),
    "linalg_inv": Hazard(
        hidden=(
            "gram = h.t() @ h",
            "h = h @ torch.linalg.inv(gram + 10 * torch.eye(8, device=h.device))",
        )
    ),
    "inverse_half": Hazard(
        hidden=("h = h @ torch.inverse(h.t() @ h + h.t() @ h + 9 * self.eye)",),
        init=('self.register_buffer("eye", torch.eye(8))',),
    ),
    "slogdet": Hazard(
        hidden=(
            "gram = self.mix(h).t() @ self.mix(h)",
            "h = h + 1e-3 * torch.linalg.slogdet(gram.mul(1.0) + self.mix.weight.matmul(self.mix.weight.t()))[1]",
        ),
        init=("self.mix = nn.Linear(8, 8)",),
    ),
    "svd": Hazard(hidden=("h = h / torch.linalg.matrix_norm(h @ h.t(), 2)",)),
    "fft": Hazard(
        hidden=("h = torch.fft.rfft(self.pre(h)).abs()[:, :4].repeat(1, 2)",),
        init=("self.pre = nn.Linear(8, 8)",),
    ),
    "irfft": Hazard(
        hidden=(
            "a = torch.fft.rfft(self.pre(h))",
            "h = torch.fft.irfft(torch.conj(a) * a, n=8)",
        ),
        init=("self.pre = nn.Linear(8, 8)",),
    ),
    "complex": Hazard(
        hidden=("z = torch.complex(self.pre(h), h.float())", "h = z.abs()"),
        init=("self.pre = nn.Linear(8, 8)",),
    ),
    "cdist": Hazard(
        hidden=("h = torch.exp(-torch.cdist(self.pre(h), self.centres))",),
        init=("self.pre = nn.Linear(8, 8)", "self.centres = nn.Parameter(torch.randn(8, 8))"),
    ),
    "cumsum": Hazard(
        hidden=("h = torch.cumsum(self.pre(h), dim=1) / 8",), init=("self.pre = nn.Linear(8, 8)",)
    ),
    "log_softmax_eps": Hazard(
        output=("o = 0.1 * torch.log(torch.softmax(o * 40, dim=1) + 1e-12)",)
    ),
    "normalize": Hazard(hidden=("h = F.normalize(h, dim=1)",)),
    "cosine": Hazard(
        output=("o = o * F.cosine_similarity(h, self.pre(h), dim=1)[:, None]",),
        init=("self.pre = nn.Linear(8, 8)",),
    ),
    "sparse_mm": Hazard(
        hidden=("h = torch.sparse.mm(self.graph, h)",),
        init=('self.register_buffer("graph", torch.eye(8).to_sparse())',),
    ),
    "sparse_matmul": Hazard(
        hidden=("h = torch.matmul(self.graph, self.pre(h))",),
        init=(
            "self.pre = nn.Linear(8, 8)",
            'self.register_buffer("graph", torch.eye(8).to_sparse())',
        ),
    ),
    "sparse_operator": Hazard(
        hidden=("h = self.graph @ self.pre(h)",),
        init=(
            "self.pre = nn.Linear(8, 8)",
            'self.register_buffer("graph", torch.eye(8).to_sparse())',
        ),
    ),
    "integers": Hazard(
        hidden=(
            "picked = (h > 0).long()",
            "h = h * picked + self.table(picked.sum(1).clamp(max=7))",
        ),
        init=("self.table = nn.Embedding(8, 8)",),
    ),
    "one_hot": Hazard(
        output=("o = o + self.mix(F.one_hot(o.argmax(1), 3).float())",),
        init=("self.mix = nn.Linear(3, 3)",),
    ),
    "list_of_tensors": Hazard(
        hidden=("parts = [h[:, :4], h[:, 4:]]", "h = torch.cat(parts, dim=1)")
    ),
    "mapped_list": Hazard(
        hidden=("parts = list(map(lambda t: t * 2, h.chunk(2, dim=1)))", "h = torch.cat(parts, 1)")
    ),
    "own_container": Hazard(
        hidden=("h = Columns(h).total()",),
        module=(
            "class Columns:",
            "    def __init__(self, values):",
            "        self.values = list(values.unbind(1))",
            "",
            "    def total(self):",
            "        return torch.stack([v / 2 for v in self.values], dim=1)",
        ),
    ),
    "positions": Hazard(
        hidden=(
            "seconds = torch.arange(8, device=x.device).float() * 30000.0",
            'angles = torch.einsum("b,d->bd", seconds, self.frequencies)',
            "h = h + torch.sin(angles)",
        ),
        init=('self.register_buffer("frequencies", torch.linspace(0.1, 1.0, 8))',),
    ),
    "seconds_linear": Hazard(
        hidden=(
            "seconds = 70000.0 + torch.arange(8, device=x.device).float()[:, None]",
            "h = h + torch.tanh(1e-6 * self.clock(seconds))",
        ),
        init=("self.clock = nn.Linear(1, 8)",),
    ),
    "functional_batch_norm": Hazard(
        hidden=(
            "w = self.gain(h.mean(0))",
            "h = F.batch_norm(h, None, None, weight=w, bias=w, training=True)",
        ),
        init=("self.gain = nn.Linear(8, 8)",),
    ),
    "autograd_function": Hazard(
        hidden=("h = Cubed.apply(self.pre(h))",),
        init=("self.pre = nn.Linear(8, 8)",),
        module=(
            "class Cubed(torch.autograd.Function):",
            "    @staticmethod",
            "    def forward(ctx, v):",
            "        ctx.save_for_backward(v)",
            "        return v * v * v",
            "",
            "    @staticmethod",
            "    def backward(ctx, g):",
            "        (v,) = ctx.saved_tensors",
            "        return 3 * v * v * g",
        ),
    ),
    "function_with_matmul": Hazard(
        hidden=("h = Mixed.apply(h, self.pre.weight)",),
        init=("self.pre = nn.Linear(8, 8)",),
        module=(
            "class Mixed(torch.autograd.Function):",
            "    @staticmethod",
            "    def forward(ctx, v, w):",
            "        ctx.save_for_backward(v, w)",
            "        return v.mm(w)",
            "",
            "    @staticmethod",
            "    def backward(ctx, g):",
            "        v, w = ctx.saved_tensors",
            "        return g.mm(w.t()), v.t().mm(g)",
        ),
    ),
    "out_keyword": Hazard(
        output=(
            "probe = torch.empty(8, 3)",
            "torch.mul(o.detach().cpu(), 2, out=probe)",
            "o = o + 0 * probe.to(o.device)",
        )
    ),
    "in_place_sum": Hazard(
        hidden=("h = self.pre(h)", "h += x.mean()"), init=("self.pre = nn.Linear(8, 8)",)
    ),
    "float_accumulator": Hazard(
        output=(
            "total = torch.zeros(8, 3, device=x.device)",
            "for _ in range(3):",
            "    total += o / 3",
            "o = total",
        )
    ),
    "dot_promotes": Hazard(output=("o = o * torch.dot(h[0], x.new_ones(8))",)),
    "interpolate": Hazard(
        hidden=("h = F.interpolate(h[:, None], scale_factor=2, mode='linear')[:, 0, :8]",)
    ),
    "quantile": Hazard(output=("o = o / (1 + torch.quantile(o.detach().abs(), 0.9))",)),
    "topk_sort": Hazard(output=("v, at = torch.topk(o, 3, dim=1)", "o = o + v - v.sort(dim=1)[0]")),
    "std": Hazard(hidden=("h = (h - h.mean(0)) / (h.std(0) + 1e-5)",)),
    "norm_method": Hazard(hidden=("h = h / (h.norm(dim=1, keepdim=True) + 1e-6)",)),
    "exp_overflow": Hazard(output=("o = torch.exp(o.clamp(max=14)) * 1e-3",)),
    "exp_of_big": Hazard(output=("o = torch.log1p(torch.exp(12 + o)) * 0.1",)),
    "normal_distribution": Hazard(
        output=(
            "d = torch.distributions.Normal(o, F.softplus(o) + 1e-3)",
            "o = 0.01 * d.log_prob(torch.zeros_like(o)) + o",
        )
    ),
    "categorical": Hazard(
        output=(
            "d = torch.distributions.Categorical(logits=o)",
            "o = o + 0.01 * d.entropy()[:, None]",
        )
    ),
    "bucketize": Hazard(
        output=(
            "edges = torch.linspace(-1, 1, 5, device=o.device)",
            "o = o + 0.1 * torch.bucketize(o.detach(), edges)",
        )
    ),
    "new_tensor": Hazard(output=("o = o * o.new_tensor([1.0, 2.0, 3.0])",)),
    "dtype_argument": Hazard(output=("o = o + torch.ones(3, dtype=o.dtype, device=o.device)",)),
    "type_as": Hazard(output=("o = o + x[:, :3].type_as(o)",)),
    "dtype_branch": Hazard(output=("if o.dtype == torch.float32:", "    o = o * 1.0")),
    "weight_matrix": Hazard(output=("o = o + torch.mm(h, self.fc2.weight.t())",)),
    "bmm_stack": Hazard(
        hidden=("h = torch.bmm(h[:, None], self.pre.weight.expand(8, 8, 8))[:, 0]",),
        init=("self.pre = nn.Linear(8, 8)",),
    ),
    "baddbmm": Hazard(
        hidden=(
            "h = torch.baddbmm(h[:, None], h[:, None], self.pre.weight.expand(8, 8, 8))[:, 0]",
        ),
        init=("self.pre = nn.Linear(8, 8)",),
    ),
    "add_matmul_inplace": Hazard(
        hidden=(
            "acc = torch.zeros(8, 8, device=x.device)",
            "acc.addmm_(h, self.pre.weight)",
            "h = h + acc",
        ),
        init=("self.pre = nn.Linear(8, 8)",),
    ),
    "running_buffer": Hazard(
        hidden=("self.mean.mul_(0.9).add_(0.1 * h.detach().mean(0))", "h = h - self.mean"),
        init=('self.register_buffer("mean", torch.zeros(8))',),
    ),
    "running_index": Hazard(
        hidden=(
            "slot = torch.arange(4, device=x.device)",
            "self.bank[slot] = h.detach()[:4]",
            "h = h + self.bank.mean()",
        ),
        init=('self.register_buffer("bank", torch.zeros(16, 8))',),
    ),
    "lerp_buffer": Hazard(
        hidden=("self.mean.lerp_(h.detach().mean(0), 0.1)", "h = h - self.mean"),
        init=('self.register_buffer("mean", torch.zeros(8))',),
    ),
}
