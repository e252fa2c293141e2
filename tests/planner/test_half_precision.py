"""What half precision breaks, in many spellings, and what it does not."""

from __future__ import annotations

import pytest

from tests.planner.programs import body, output, script, text, verdicts

STEP = "loss.backward()\noptimizer.step()\n"


def cast(before: str) -> str:
    """The body of a loop with `before` inside, which ends in `loss`."""
    return body(f"{before}\n{STEP}")


MENDED = {
    "log of sigmoid": (
        "loss = -torch.log(torch.sigmoid(model(x))).mean()",
        "torch.sigmoid(model(x).float())",
    ),
    "the method log": ("loss = -model(x).sigmoid().log().mean()", "model(x).float().sigmoid()"),
    "one minus, one assignment earlier": (
        "p = torch.sigmoid(model(x))\nloss = -torch.log(1 - p).mean()",
        "p = torch.sigmoid(model(x).float())",
    ),
    "two assignments earlier": (
        "logits = model(x)\np = logits.sigmoid()\nq = 1.0 - p\nloss = -q.log().mean()",
        "p = logits.float().sigmoid()",
    ),
    "with eps": (
        "p = torch.sigmoid(model(x))\nloss = -torch.log(1 - p + 1e-8).mean()",
        "p = torch.sigmoid(model(x).float())",
    ),
    "log1p": (
        "p = torch.sigmoid(model(x))\nloss = -torch.log1p(-p).mean()",
        "p = torch.sigmoid(model(x).float())",
    ),
    "clamped to a computed bound after a helper": (
        "p = model(x)\np = torch.clamp(p, 1e-4, 1.0 - 1e-4)\nloss = -torch.log(1.0 - p).mean()",
        "p = torch.clamp(p.float(), 1e-4, 1.0 - 1e-4)",
    ),
    "clamped to almost one": (
        "p = torch.clamp(torch.sigmoid(model(x)), 1e-4, 1 - 1e-4)\nloss = -torch.log(1 - p).mean()",
        "torch.sigmoid(model(x).float())",
    ),
    "clamped, a method": (
        "p = model(x).sigmoid().clamp(min=1e-4, max=0.9999)\nloss = -(1 - p).log().mean()",
        "model(x).float().sigmoid()",
    ),
    "a guard by a write": (
        "d = model(x) - y\nd[d < 1e-10] = 1e-10\nloss = (1 / d).mean()",
        "d = (model(x) - y).float()",
    ),
    "a guard by a write, in a quotient": (
        "d = model(x).abs()\nd[d == 0] = 1e-12\nloss = torch.div(y, d).mean()",
        "d = model(x).abs().float()",
    ),
    "a guard by clamp": (
        "n = model(x)\nloss = (y / n.clamp(min=1e-8)).mean()",
        "y / n.float().clamp(min=1e-8)",
    ),
    "a guard by clamp_min": (
        "n = model(x)\nloss = torch.reciprocal(torch.clamp_min(n, 1e-10)).mean()",
        "torch.clamp_min(n.float(), 1e-10)",
    ),
    "a guard by addition": (
        "n = model(x)\nweights = n + 1e-9\nloss = (y / weights).mean()",
        "weights = n.float() + 1e-9",
    ),
    "a root": (
        "d = model(x)\nloss = torch.sqrt(d + 1e-12).mean()",
        "torch.sqrt(d.float() + 1e-12)",
    ),
    "clamp as a function": (
        "out = model(x)\nout = torch.clamp(out, -1e6, 1e6)\nloss = criterion(out, y)",
        "torch.clamp(out.float(), -1e6, 1e6)",
    ),
    "clip as a function": (
        "loss = criterion(torch.clip(model(x), max=1e7), y)",
        "torch.clip(model(x).float(), max=1e7)",
    ),
    "masked_fill as a function": (
        "loss = criterion(torch.masked_fill(model(x), mask, -1e9), y)",
        "torch.masked_fill(model(x).float(), mask, -1e9)",
    ),
    "pad with a constant": (
        "loss = criterion(F.pad(model(x), (0, 1), value=-1e9), y)",
        "F.pad(model(x).float(), (0, 1), value=-1e9)",
    ),
    "a product with a huge number": (
        "s = model(x)\nloss = (s * 1e6).mean()",
        "s.float() * 1e6",
    ),
    "a buffer made like the input": (
        "buf = torch.zeros_like(x)\nbuf[ids] = model(x)\nloss = buf.mean()",
        "buf[ids] = model(x).float()",
    ),
    "a buffer of new_zeros": (
        "buf = x.new_zeros(8, 8)\nout = model(x)\nbuf[mask] = out\nloss = buf.mean()",
        "buf[mask] = out.float()",
    ),
    "index_add_": (
        (
            "out = model(x)\nbuf = torch.zeros_like(x)\nbuf.index_add_(0, ids, out)\n"
            "loss = (buf + out).mean()"
        ),
        "buf.index_add_(0, ids, out.float())",
    ),
    "scatter_ by keyword": (
        (
            "out = model(x)\nbuf = x.new_zeros(8, 8)\nbuf.scatter_(0, ids, src=out)\n"
            "loss = (buf + out).mean()"
        ),
        "buf.scatter_(0, ids, src=out.float())",
    ),
    "scatter out of place": (
        "out = model(x)\nloss = torch.zeros_like(x).scatter(0, ids, out).mean()",
        ".scatter(0, ids, out.float())",
    ),
    "batch_norm with a computed weight": (
        "w = other(x)\nloss = F.batch_norm(model(x), mean, var, w, w).mean()",
        "F.batch_norm(model(x), mean, var, w.float(), w.float())",
    ),
    "a complex number of half and float": (
        "h = model(x)\nloss = torch.complex(h, h.float()).abs().mean()",
        "torch.complex(h.float(), h.float())",
    ),
    "a bank of the module": (
        "out = model(x)\nloss = criterion(out, y)\nbank[ids] = out.detach().cpu()",
        "bank[ids] = out.detach().cpu().float()",
    ),
    "a bank, by a computed index": (
        "out = model(x)\nloss = criterion(out, y)\nbank[torch.arange(8) % 16] = out.detach()",
        "bank[torch.arange(8) % 16] = out.detach().float()",
    ),
    "an inverse transform of a half signal": (
        "loss = torch.fft.rfft(model(x)).abs().mean()",
        "torch.fft.rfft(model(x).float())",
    ),
}


@pytest.mark.parametrize(("before", "mended"), MENDED.values(), ids=MENDED)
def test_the_narrowest_cast_mends_it(before: str, mended: str) -> None:
    new = body(f"{before}\n{STEP}", before="bank = torch.zeros(16, 8)\n")
    assert mended in new
    assert new.count(".float()") == mended.count(".float()")


IDLE = {
    "log of softmax": "loss = -torch.log(torch.softmax(model(x), 1)).mean()",
    "log of softmax with eps": "p = F.softmax(model(x), 1)\nloss = -torch.log(p + 1e-8).mean()",
    "a norm with eps": "n = model(x)\nloss = (n / (n.norm(dim=1, keepdim=True) + 1e-8)).mean()",
    "a power with eps": "n = model(x)\nloss = (1 / (n.pow(2) + 1e-8)).mean()",
    "a square with eps": "n = model(x)\nloss = (1 / (n ** 2 + 1e-8)).mean()",
    "a sum with eps": "n = model(x)\nloss = (y / (n.sum() + 1e-10)).mean()",
    "the data": "weights = 1 / (x + 1e-8)\nloss = (model(x) * weights).mean()",
    "the data under the model": "loss = (model(x) / (x.sum(1, keepdim=True) + 1e-8)).mean()",
    "a half buffer": "out = model(x)\nbuf = torch.zeros_like(out)\nbuf[ids] = out\nloss = buf.mean()",
    "half new_zeros": "out = model(x)\nbuf = out.new_zeros(8, 8)\nbuf[ids] = out\nloss = buf.mean()",
    "an embedding": "e = nn.Embedding(9, 8)(y)\nbuf = torch.zeros_like(x)\nbuf[ids] = e\n"
    "loss = (model(x) + buf).mean()",
    "softmax into a buffer": "buf = torch.zeros_like(x)\nbuf[ids] = model(x).softmax(1)\n"
    "loss = buf.mean()",
    "integers": "c = torch.zeros_like(y)\nc[ids] = model(x).argmax(1)\nloss = criterion(model(x), y)",
    "a sigmoid alone": "p = torch.sigmoid(model(x))\nloss = (p * x).mean()",
    "a quotient of a sigmoid": "p = torch.sigmoid(model(x))\nloss = (x / (p + 1)).mean()",
    "an inverse of the data": "loss = (torch.linalg.inv(x) + model(x)).mean()",
    "a complex inverse transform": "f = torch.fft.rfft(x)\nloss = (torch.fft.irfft(f * f) + model(x)).mean()",
    "masked integers": "c = y.masked_fill(mask, 100000)\nloss = criterion(model(x), c)",
}


@pytest.mark.parametrize("before", IDLE.values(), ids=IDLE)
def test_no_cast_where_nothing_is_half(before: str) -> None:
    new = cast(before)
    assert ".float()" not in new


def test_complex_operands_keep_their_imaginary_part() -> None:
    new = cast(
        "a = model(x)\nf = torch.fft.rfft(a)\nloss = torch.fft.irfft(torch.conj(f) * f).mean()"
    )
    assert "torch.fft.rfft(a.float())" in new
    assert new.count(".float()") == 1


REFUSED = {
    "a sparse product": (
        "adj = torch.sparse_coo_tensor(i, v, (8, 8))\nloss = torch.matmul(adj, model(x)).mean()",
        "ops-without-half-kernel",
    ),
    "a sparse product, an operator": (
        "adj = x.to_sparse()\nloss = (adj @ model(x)).mean()",
        "ops-without-half-kernel",
    ),
    "a low-rank decomposition": (
        "loss = torch.svd_lowrank(model(x))[1].sum()",
        "ops-without-half-kernel",
    ),
}


@pytest.mark.parametrize(("before", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_no_cast_mends_is_refused(before: str, reason: str) -> None:
    assert verdicts(script(f"{before}\n{STEP}")) == [("refused", reason)]


def test_positions_times_frequencies_by_elements_are_float32() -> None:
    new = cast(
        "t = torch.arange(seconds, device=device).float()\nangles = t[:, None] * freqs[None]\n"
        "loss = (model(x) * angles.sin()).mean()"
    )
    assert ".float()" not in new.replace("device=device).float()", "")


SUMS = {
    "sum": ("print(out.sum())", "print(out.float().sum())"),
    "a function": ("print(torch.sum(out * 2))", "print(torch.sum(out.float() * 2))"),
    "a norm": ("print(out.norm())", "print(out.float().norm())"),
    "a helper": ("print(iou(out, y))", "iou(out, y)"),
}


@pytest.mark.parametrize(("use", "mended"), list(SUMS.values())[:3], ids=list(SUMS)[:3])
def test_metrics_that_add_up_half_outputs_get_float(use: str, mended: str) -> None:
    new = body(f"out = model(x)\nloss = criterion(out, y)\n{STEP}{use}\n")
    assert mended in new


def test_a_helper_that_adds_up_half_outputs_gets_float() -> None:
    helper = "def iou(pr, gt):\n    return (pr * gt).sum() / (pr.sum() + gt.sum())\n\n\n"
    source = script(
        f"out = model(x)\nloss = criterion(out, y)\n{STEP}print(iou(out, y))\n", before=helper
    )
    new = output(source)
    assert "pr.float().sum()" in new


HELPERS = text(
    """
    class Focal(nn.Module):
        def probability(self, logits):
            return torch.sigmoid(logits)

        def forward(self, logits, y):
            p = self.probability(logits)
            return -(y * torch.log(p + 1e-8) + (1 - y) * torch.log(1 - p)).mean()


    def squash(v):
        return torch.sigmoid(v)


    focal = Focal()
    """
)


def test_a_sigmoid_in_a_method_gets_float() -> None:
    new = output(script(f"loss = focal(model(x), y)\n{STEP}", before=HELPERS))
    assert "return torch.sigmoid(logits.float())" in new
    assert new.count(".float()") == 1


def test_a_sigmoid_in_a_helper_gets_float() -> None:
    new = output(
        script(f"p = squash(model(x))\nloss = -torch.log(1 - p).mean()\n{STEP}", before=HELPERS)
    )
    assert "return torch.sigmoid(v.float())" in new
    assert new.count(".float()") == 1


TABLES = {
    "if and else": "    if name == 'a':\n        return First()\n    else:\n        return Second()\n",
    "a dictionary": "    return {'a': First, 'b': Second}[name]()\n",
    "two names": "    made = First() if name == 'a' else Second()\n    return made\n",
}


@pytest.mark.parametrize("choose", TABLES.values(), ids=TABLES)
def test_every_model_of_a_table_is_mended(choose: str) -> None:
    classes = text(
        """
        class First(nn.Module):
            def forward(self, x):
                return torch.linalg.inv(x @ x)


        class Second(nn.Module):
            def forward(self, x):
                return torch.fft.rfft(x @ x).abs()


        """
    )
    source = script(f"loss = net(x).mean()\n{STEP}").replace(
        "device = torch.device",
        f"{classes}def get_model(name):\n{choose}\n\ndevice = torch.device",
        1,
    )
    source = source.replace("criterion =", "net = get_model(name).to(device)\ncriterion =", 1)
    new = output(source)
    assert "enabled=False):\n            return torch.linalg.inv(x @ x)" in new
    in_float = "enabled=False):\n            return torch.fft.rfft(x @ x)"
    assert in_float in new or "torch.fft.rfft((x @ x).float())" in new


BANKS = {
    "an index write": ("self.bank[slot] = h.detach()", "self.bank[slot] = h.detach().float()"),
    "lerp_": ("self.bank.lerp_(h.detach(), 0.1)", "self.bank.lerp_(h.detach().float(), 0.1)"),
    "a buffer called like an operator": (
        "self.mean.lerp_(h.detach().mean(0), 0.1)",
        "self.mean.lerp_(h.detach().mean(0).float(), 0.1)",
    ),
    "index_copy_": (
        "self.bank.index_copy_(0, slot, h.detach())",
        "self.bank.index_copy_(0, slot, h.detach().float())",
    ),
}


@pytest.mark.parametrize(("write", "mended"), BANKS.values(), ids=BANKS)
def test_registered_buffers_are_float32(write: str, mended: str) -> None:
    net = text(
        f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)
                self.register_buffer("bank", torch.zeros(8, 8))
                self.register_buffer("mean", torch.zeros(8))

            def forward(self, x, slot):
                h = self.fc(x)
                {write}
                return h


        net = Net().to(device)
        """
    )
    new = output(script(f"loss = net(x, y).mean()\n{STEP}", before=net))
    assert mended in new
    assert new.count(".float()") == 1


APART = {
    "seconds into a layer": "t = 70000.0 + torch.arange(8)[:, None]\nloss = (out + other(t)).mean()",
    "scaled positions into a product": (
        "t = torch.arange(8).float() * 30000.0\nloss = (out + torch.outer(y, t) @ t).mean()"
    ),
    "positions times frequencies": (
        "t = torch.arange(seconds, device=device).float()\n"
        "angles = torch.einsum('i,j->ij', t, torch.rand(8))\nloss = (out * angles.sin()).mean()"
    ),
    "positions times frequencies, an operator": (
        "t = torch.arange(0, 10000, dtype=torch.float32)\n"
        "angles = t[:, None] @ torch.rand(1, 8)\nloss = (out * torch.cos(angles)).mean()"
    ),
}


@pytest.mark.parametrize("use", APART.values(), ids=APART)
def test_positions_in_a_product_are_kept_out_of_autocast(use: str) -> None:
    new = output(script(f"out = model(x)\n{use}\n{STEP}"))
    island = new.partition('with torch.autocast("cuda", enabled=False):\n')[2]
    apart = island.partition("\n")[0]
    assert "other(t)" in apart or "@ t" in apart or "angles =" in apart


def test_small_positions_in_a_product_stay() -> None:
    new = cast("out = model(x)\nt = torch.arange(8).float() / 8\nloss = (out + other(t)).mean()")
    assert ".float()" not in new.replace("torch.arange(8).float()", "")


@pytest.mark.parametrize(
    ("before", "mended"),
    [
        ("loss = -torch.log(1 - torch.sigmoid(model(x))).mean()", "sigmoid(model(x).float())"),
        ("loss = -torch.log1p(-torch.sigmoid(model(x))).mean()", "sigmoid(model(x).float())"),
        (
            "p = torch.sigmoid(model(x))\nloss = -torch.log(1 - p + 1e-10).mean()",
            "sigmoid(model(x).float())",
        ),
        (
            "p = model(x).clamp(1e-4, 1 - 1e-4)\nloss = -torch.log(1 - p).mean()",
            "model(x).float().clamp(1e-4, 1 - 1e-4)",
        ),
    ],
)
def test_what_is_taken_from_one_needs_more_digits_than_bfloat16_has(
    before: str, mended: str
) -> None:
    assert mended in body(f"{before}\n{STEP}", dtype="bfloat16")


@pytest.mark.parametrize(
    "before",
    [
        "loss = -torch.log(torch.sigmoid(model(x))).mean()",
        "loss = (y / (model(x).abs() + 1e-8)).mean()",
        "p = model(x).clamp(0.01, 0.99)\nloss = -torch.log(1 - p).mean()",
    ],
)
def test_bfloat16_reaches_as_far_down_as_float32(before: str) -> None:
    assert ".float()" not in body(f"{before}\n{STEP}", dtype="bfloat16")
