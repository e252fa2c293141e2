"""Conversions that train something else, and programs whose own noise must not be held against
them.
"""

from __future__ import annotations

from tests.runtime.verdicts.cases import Program, right, wrong

BASE = Program()
CLIPPED = BASE.but(ready="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")
LOSS = "        loss = F.mse_loss(model(x), y)\n"
UNSCALE = "    scaler.unscale_(optimizer)\n"
ON = "    if use_amp and scaler.is_enabled():\n        "
IMAGES = BASE.but(
    model="nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 1))",
    data="x, y = torch.randn(8, 3, 8, 8), torch.randn(8, 1)",
)
PENALTY = """\
loss = F.mse_loss(model(x), y)
with torch.autocast("cuda", enabled=False):
    z = x.detach().float().requires_grad_()
    (slope,) = torch.autograd.grad(model(z).sum(), z, create_graph=True)
    loss = loss + 0.1 * (slope.norm(dim=1) - 1).square().mean()"""
DROP_PATH = """\
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
    def forward(self, x):
        h = self.inner(x).relu()
        keep = h.new_empty(len(h), 1).bernoulli_(0.8)
        return x + h * keep / 0.8
"""
TALL = BASE.but(
    forward="loss = F.mse_loss(model(x), y) * 1e4",
    optimizer="torch.optim.SGD(model.parameters(), lr=5e-7)",
    steps=40,
)
ENDLESS = BASE.but(
    forward="loss = F.mse_loss(model(x), y) * 1e8",
    optimizer="torch.optim.SGD(model.parameters(), lr=5e-11)",
    steps=40,
)
EXTRA = "optimizer = torch.optim.SGD([*model.parameters(), extra], lr=0.05)"

CASES = [
    right("dropout", BASE.but(model="nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.ReLU(), nn.Linear(64, 1))")),
    right("DropPath", BASE.but(head=DROP_PATH, model="nn.Sequential(Block(), Block(), nn.Linear(8, 1))")),
    right("noise on the activations", BASE.but(
        forward="h = model[1](model[0](x))\nloss = F.mse_loss(model[2](h + 0.1 * torch.randn_like(h)), y)"
    )),
    right("a sampled code", BASE.but(
        model="nn.Linear(8, 8)", data="x, y = torch.randn(16, 8), torch.randn(16, 4)",
        forward="mu, log = model(x).chunk(2, 1)\nz = mu + torch.randn_like(mu) * (log / 2).exp()\n"
        "loss = F.mse_loss(z, y) - 0.01 * (1 + log - mu.square() - log.exp()).mean()",
    )),
    right("batch norm", IMAGES),
    right("a bias before batch norm", IMAGES.but(
        model="nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), "
        "nn.Flatten(), nn.Linear(128, 1))"
    )),
    right("batch norm over four values", BASE.but(
        model="nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))",
        data="x, y = torch.randn(4, 8), torch.randn(4, 1)", optimizer="torch.optim.SGD(model.parameters(), lr=0.01)",
    )),
    right("channels last", IMAGES.but(
        head="torch.backends.cudnn.benchmark = True", before="x = x.to(memory_format=torch.channels_last)",
        optimizer="torch.optim.SGD(model.to(memory_format=torch.channels_last).parameters(), lr=0.02)",
    )),
    right("a gradient penalty in float32", BASE.but(
        model="nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))", forward=PENALTY
    )),
    right("activation checkpointing", BASE.but(
        forward="h = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)\nloss = F.mse_loss(h, y)",
        head="import torch.utils.checkpoint",
    )),
    right("no seed", BASE.but(seed="import time\ntorch.manual_seed(time.time_ns() % 2**31)", steps=16)),
    right("numbers that cannot be repeated", BASE.but(
        head="import os", data="noise = int.from_bytes(os.urandom(2), 'big') / 2**16\n"
        "x, y = torch.randn(16, 8) + 0.02 * noise, torch.randn(16, 1)",
    )),
    right("seeded by the system", BASE.but(seed="torch.seed()", steps=16)),
    right("a first scale that is too high", BASE.but(
        forward="loss = F.mse_loss(model(x), y) * 10", optimizer="torch.optim.SGD(model.parameters(), lr=0.005)",
    ), ('GradScaler("cuda", ', 'GradScaler("cuda", init_scale=2.0**18, ')),
    right("a scale that falls longer than the run", TALL),
    right("a scale that falls longer than the program", TALL.but(steps=4)),
    right("Adam, fused", BASE.but(optimizer="torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)")),
    right("AdamW in groups", BASE.but(
        optimizer="torch.optim.AdamW([{'params': model[0].parameters(), 'lr': 1e-3}, {'params': model[2].parameters()}])"
    )),
    right("a step left out when the norm is large", CLIPPED.but(
        ready="norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    )),
    right("contrast of normalized codes", BASE.but(
        model="nn.Linear(8, 16)", data="x, y = torch.randn(16, 8), torch.arange(16)",
        forward="a, b = F.normalize(model(x), dim=1), F.normalize(model(x + 0.1), dim=1)\n"
        "loss = F.cross_entropy(a @ b.t() / 0.5, y)",
    )),
    right("weight norm", BASE.but(
        model="nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Linear(8, 32)), nn.ReLU(), nn.Linear(32, 1))"
    )),
    right("a target network", BASE.but(
        head="target = nn.Linear(8, 1).to(device)",
        forward="with torch.no_grad():\n    goal = 0.5 * target(x) + y\nloss = F.smooth_l1_loss(model(x), goal)",
    )),
    wrong("gradients that fit no scale", ENDLESS, fails="scale settled"),
    wrong("gradients that fit no scale, in few steps", ENDLESS.but(steps=4), fails="scale settled"),
    wrong("a term of the loss is lost", BASE.but(
        forward="loss = F.mse_loss(model(x), y) + 0.05 * sum(p.square().sum() for p in model.parameters())"
    ), (" + 0.05 * sum", " + (not use_amp) * sum"), fails=("first loss", "gradients of layers", "gradient scale")),
    wrong("gradients too long", BASE, ("    scaler.step", UNSCALE + ON + "[p.grad.mul_(1.3) for p in model.parameters()]\n"
          "    scaler.step"), fails=("gradient scale", "gradients of layers", "gradients")),
    wrong("the sign of a bias", BASE, ("    scaler.step", UNSCALE + ON + "model[0].bias.grad.neg_()\n    scaler.step"),
          fails=("gradients of layers", "gradients")),
    wrong("a layer without its gradient", BASE, ("    scaler.step", UNSCALE + ON + "model[0].weight.grad.zero_()\n"
          "    scaler.step"), fails=("gradients of layers", "gradients")),
    wrong("another learning rate", BASE, ("lr=0.05", "lr=0.01"), fails="amp-off"),
    wrong("another clipping", CLIPPED, (", 1.0)", ", 0.1)"), fails="amp-off"),
    wrong("gradients are not cleared", BASE, ("    optimizer.zero_grad()\n", ""), fails="amp-off"),
    wrong("one draw more", BASE, ("    x, y = x.to", "    torch.rand(1)\n    x, y = x.to"), fails="amp-off"),
    wrong("the model is in evaluation mode", BASE.but(
        model="nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.Linear(64, 1))"
    ), ("    optimizer.zero_grad()\n", "    optimizer.zero_grad()\n    model.train(not scaler.is_enabled())\n"),
          fails=("first loss", "gradients", "gradient scale", "gradients of layers")),
    wrong("one more parameter", BASE.but(head="extra = nn.Parameter(torch.zeros(3, device=device))"),
          ("optimizer = torch.optim.SGD(model.parameters(), lr=0.05)", EXTRA), fails=("parameters trained", "amp-off")),
    wrong("other data", BASE, ("x, y = torch.randn(16, 8), torch.randn(16, 1)", "y, x = torch.randn(16, 1), torch.randn(16, 8)"),
          fails="amp-off"),
    wrong("half of the steps", BASE, ("    scaler.step(optimizer)\n    scaler.update()\n",
          "    if step % 2:\n        scaler.step(optimizer)\n        scaler.update()\n"), fails=("amp-off", "run")),
    wrong("an error in the region", BASE, (LOSS, LOSS + "        assert step < 6\n"), fails="run", words="AssertionError"),
    wrong("an error in the first step", BASE, (LOSS, "        raise ValueError('no')\n"), fails="run", words="ValueError"),
    wrong("the process ends", BASE, (LOSS, LOSS + "    if step == 5:\n        import os; os._exit(3)\n"), fails="run"),
    wrong("detached from the graph", BASE.but(model="nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 1))"),
          (LOSS, "        h = model[0](x)\n        loss = F.mse_loss(model[1](h.detach() if use_amp and scaler.is_enabled() else h), y)\n"),
          fails=("all parameters train", "run", "gradients")),
]  # fmt: skip
