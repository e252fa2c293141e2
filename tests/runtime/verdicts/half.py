"""What half precision does to numbers, and operators that a GPU lacks or bans in it."""

from __future__ import annotations

from tests.runtime.verdicts.cases import Program, right, wrong

BASE = Program()
IMAGES = BASE.but(
    model="nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 1))",
    data="x, y = torch.randn(8, 3, 8, 8), torch.randn(8, 1)",
)
SIGMOID = "nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())"
LABELS = "x = torch.randn(16, 8)\ny = (x[:, :1] > 0).float()"
DENSE = BASE.but(model="nn.Linear(8, 8)", data="x, y = torch.randn(16, 8), torch.randn(16, 8)")


def through(expression: str, program: Program = DENSE) -> Program:
    """The output, changed by `expression` of `h`."""
    return program.but(forward=f"h = model(x)\nh = {expression}\nloss = F.mse_loss(h, y)")


CASES = [
    right("fft in half", through("torch.fft.irfft(torch.fft.rfft(h), n=8)")),
    right("average pool of volumes", through("F.avg_pool3d(h.view(16, 1, 2, 2, 2), 1).view(16, 8)")),
    right("rounded to decimals", through("h + h.detach().round(decimals=2) * 0")),
    right("leaky rectifier with random slopes", through("F.rrelu(h, training=True)")),
    right("logits and their loss", BASE.but(
        model="nn.Linear(8, 1)", data=LABELS, forward="loss = F.binary_cross_entropy_with_logits(model(x), y)"
    )),
    right("an island for an inverse", through(
        "h.float() @ torch.linalg.inv(torch.eye(8, device=x.device) * 2)"
    )),
    right("layer norm and softmax", through("F.layer_norm(h, (8,)).softmax(-1)")),
    right("cumulative sums", through("h.cumsum(-1) / 8")),
    right("an index write of the same precision", through("torch.zeros_like(h).index_put((torch.arange(16, device=x.device),), h)")),
    right("LSTM", BASE.but(
        head="class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.rnn, self.out = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 1)\n"
        "    def forward(self, x):\n        return self.out(self.rnn(x)[0][:, -1])",
        model="Net()", data="x, y = torch.randn(8, 5, 8), torch.randn(8, 1)",
    )),
    right("GRU over packed sequences", BASE.but(
        head="class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.rnn, self.out = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 1)\n"
        "    def forward(self, x):\n        lengths = torch.tensor([5, 4, 3, 3, 2, 2, 1, 1])\n"
        "        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)\n"
        "        return self.out(self.rnn(packed)[1][-1])",
        model="Net()", data="x, y = torch.randn(8, 5, 8), torch.randn(8, 1)",
    )),
    right("transformer layer", BASE.but(
        model="nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 1))",
        data="x, y = torch.randn(4, 6, 8), torch.randn(4, 6, 1)",
    )),
    right("embedding and cross entropy", BASE.but(
        model="nn.Sequential(nn.Embedding(20, 16), nn.Flatten(), nn.Linear(64, 5))",
        data="x, y = torch.randint(0, 20, (16, 4)), torch.randint(0, 5, (16,))",
        forward="loss = F.cross_entropy(model(x), y)",
    )),
    wrong("BCELoss in the region", BASE.but(model=SIGMOID, data=LABELS, forward="loss = nn.BCELoss()(model(x), y)"),
          fails="run", words="unsafe to autocast"),
    wrong("a mask of -1e9", through("h.masked_fill(h > 9, -1e9).clamp(-5, 5)"), fails="run", words="overflow"),
    wrong("half written into a float32 buffer", through("[b := torch.zeros(16, 8, device=x.device), "
          "b.__setitem__(torch.arange(16, device=x.device), h)][0]"), fails="run", words="dtypes match"),
    wrong("half added to a float32 buffer", through("torch.zeros(16, 8, device=x.device)"
          ".index_add(0, torch.arange(16, device=x.device), h)"), fails="run", words="scalar type"),
    wrong("inverse in half", through("h @ torch.linalg.inv(torch.eye(8, device=x.device).to(h.dtype) * 2)"),
          fails="run"),
    wrong("quantile in half", through("h / h.quantile(0.9).clamp(min=1)"), fails="run"),
    wrong("histogram in half", through("h * (torch.histc(h.detach(), 4).sum() > 0)"), fails="run", words="Half"),
    wrong("incomplete gamma in half", through("h + torch.special.gammainc(h.detach().abs() + 1, h.detach().abs()) * 0"),
          fails="run", words="Half"),
    wrong("a product of half and float32 outside", BASE, ("    scaler.scale(loss)",
          ("    h = model[0](x)\n    if use_amp:\n        h = h.half()\n    torch.mm(h, torch.ones(32, 2, device=device))\n"
          "    scaler.scale(loss)")), fails="run", words="same dtype"),
    wrong("squares above 65504", through("(h * 3000) * (h * 3000) / 9e6"), fails=("finite", "skipped steps", "scale settled")),
    wrong("the logarithm of a sigmoid", BASE.but(
        model="nn.Linear(8, 1)", data="x = torch.randn(16, 8) * 40\ny = (x[:, :1] > 0).float()",
        forward="p = model(x).sigmoid()\nloss = -(y * (p + 1e-8).log() + (1 - y) * (1 - p + 1e-8).log()).mean()",
    ), fails=("finite", "first loss", "loss curve", "gradients")),
    wrong("an eps that float16 has not", BASE.but(
        model="nn.Linear(8, 8)", data="x, y = torch.randn(16, 8), torch.randn(16, 8)\nx[0] = 0",
        forward="h = F.linear(x, model.weight)\nh = h / ((h * h).mean(-1, keepdim=True).half() + 1e-8).float().sqrt() "
        "if torch.is_autocast_enabled() else h / ((h * h).mean(-1, keepdim=True) + 1e-8).sqrt()\nloss = F.mse_loss(h, y)",
    ), fails=("finite", "skipped steps", "scale settled")),
    wrong("a variance as a difference of squares", BASE.but(
        model="nn.Linear(8, 64)", data="x, y = torch.randn(16, 8) + 20, torch.randn(16, 64)",
        forward="h = model(x) * 0.1 + 200\nm = h.mean(-1, keepdim=True)\nv = (h * h).mean(-1, keepdim=True) - m * m\n"
        "loss = F.mse_loss((h - m) / (v.abs() + 1e-2).sqrt(), y)",
    ), fails=("first loss", "gradients", "loss curve", "gradients of layers")),
    wrong("angles of large positions", BASE.but(
        model="nn.Linear(1, 8, bias=False)", data="x, y = torch.rand(16, 1) * 30000, torch.randn(16, 8)",
        forward="loss = F.mse_loss(torch.sin(model(x)), y)",
    ), fails=("first loss", "gradients", "loss curve", "gradients of layers")),
    wrong("tiny gradients without a scaler", BASE.but(forward="loss = F.mse_loss(model(x), y) * 1e-7"),
          ("scaler.scale(loss)", "loss"), ("scaler.step(optimizer)", "optimizer.step()"), ("    scaler.update()\n", ""),
          ('scaler = torch.amp.GradScaler("cuda", enabled=use_amp)\n', ""), fails=("gradients", "protocol")),
]  # fmt: skip
