"""Breaches of AMP's protocol, and loops that only look like one."""

from __future__ import annotations

from tests.runtime.verdicts.cases import Case, Program, right, wrong

BASE = Program()
CLIPPED = BASE.but(ready="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")
STEP = "    scaler.step(optimizer)\n"
UPDATE = "    scaler.update()\n"
UNSCALE = "    scaler.unscale_(optimizer)\n"
CLIP = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
BACKWARD = "    scaler.scale(loss).backward()\n"
MAKE = 'scaler = torch.amp.GradScaler("cuda", enabled=use_amp)\n'
FOR = "for step in range(12):\n"
ACCUMULATED = """\
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp = device.type == "cuda"
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(24):
    x, y = torch.randn(16, 8).to(device), torch.randn(16, 1).to(device)
    loss = F.mse_loss(model(x), y) / 2
    loss.backward()
    if step % 2:
        optimizer.step()
        optimizer.zero_grad()
"""


def accumulated(
    unscale: str = "", each: str = "", update: str = "        scaler.update()\n"
) -> str:
    text = ACCUMULATED.replace("optimizer.step()", "scaler.step(optimizer)")
    text = text.replace("loss.backward()", "scaler.scale(loss).backward()")
    text = text.replace("for step", f"{MAKE}for step")
    region = '    with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):\n    '
    text = text.replace("    loss = F", f"{region}    loss = F")
    text = text.replace("    if step % 2:\n", f"{each}    if step % 2:\n{unscale}")
    return text.replace("        optimizer.zero_grad()", f"{update}        optimizer.zero_grad()")


GAN = """\
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp = device.type == "cuda"
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
D = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(device)
optG = torch.optim.Adam(G.parameters(), lr=1e-3)
optD = torch.optim.Adam(D.parameters(), lr=1e-3)
for step in range(12):
    real = torch.randn(16, 8).to(device)
    optD.zero_grad()
    fake = G(torch.randn(16, 4).to(device))
    lossD = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
    lossD.backward()
    optD.step()
    optG.zero_grad()
    lossG = F.softplus(-D(fake)).mean()
    lossG.backward()
    optG.step()
"""


def gan(*edits: tuple[str, str]) -> str:
    region = '    with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):\n'
    text = GAN.replace("for step", f"{MAKE}for step")
    for first, last in (("    fake = G", "lossD.backward"), ("    lossG = F", "lossG.backward")):
        begin, end = text.index(first), text.index(f"    {last}")
        body = text[begin:end].replace("    ", "        ", 1).replace("\n    ", "\n        ")
        text = text[:begin] + region + body.rstrip(" ") + text[end:]
    for name in ("G", "D"):
        text = text.replace(f"loss{name}.backward()", f"scaler.scale(loss{name}).backward()")
        text = text.replace(f"opt{name}.step()", f"scaler.step(opt{name})")
    text += "    scaler.update()\n"
    for old, new in edits:
        assert old in text, text
        text = text.replace(old, new)
    return text


CASES = [
    right("plain loop", BASE),
    right("clipping", CLIPPED),
    right("clip by value", BASE.but(ready="nn.utils.clip_grad_value_(model.parameters(), 0.1)")),
    right("gradients logged", BASE.but(
        ready="total = sum(p.grad.norm() for p in model.parameters())\nassert total >= 0 or total != total"
    )),
    right("bfloat16 without a scaler", BASE.but(dtype="bfloat16")),
    right("zero_grad by hand", BASE, ("    optimizer.zero_grad()\n",
          "    for p in model.parameters():\n        p.grad = None\n")),
    right("update after the scheduler", BASE.but(
        optimizer="torch.optim.SGD(model.parameters(), lr=0.05)\n"
        "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)",
        after="scheduler.step()",
    )),
    Case("accumulation", ACCUMULATED, accumulated()),
    Case("accumulation, unscaled at the boundary", ACCUMULATED,
         accumulated("        scaler.unscale_(optimizer)\n")),
    Case("two optimizers, one scaler", GAN, gan()),
    Case("two optimizers that skip twelve times each", GAN.replace(").mean()\n", ").mean() * 1e4\n").replace("(12)", "(40)"),
         gan((").mean()\n", ").mean() * 1e4\n"), ("(12)", "(40)"))),
    wrong("the optimizer steps by itself", BASE, ("scaler.step(optimizer)", "optimizer.step()"),
          fails=("protocol", "run")),
    wrong("a bare step after unscale_", CLIPPED, ("scaler.step(optimizer)", "optimizer.step()"),
          fails="protocol", words="bare-step-after-unscale"),
    wrong("clipping without unscale_", CLIPPED, (UNSCALE, ""), fails="protocol",
          words="clip-without-unscale"),
    wrong("unscale_ after clipping", CLIPPED, (UNSCALE, ""), (CLIP, CLIP + UNSCALE),
          fails="protocol"),
    wrong("unscale_ twice", CLIPPED, (UNSCALE, UNSCALE * 2), fails=("run", "protocol")),
    wrong("no update", BASE, (UPDATE, ""), fails=("protocol", "run")),
    wrong("no update, clipped", CLIPPED, (UPDATE, ""), fails=("protocol", "run")),
    wrong("update before step", BASE, (STEP + UPDATE, UPDATE + STEP), fails=("protocol", "run")),
    wrong("update twice", BASE, (UPDATE, UPDATE * 2), fails=("protocol", "run")),
    wrong("a scaler for every step", BASE, (MAKE + FOR, f"{FOR}    {MAKE}"), fails="protocol"),
    wrong("backward in the region", BASE, (BACKWARD, f"    {BACKWARD}"), fails="protocol"),
    wrong("step in the region", BASE, (BACKWARD + STEP, f"    {BACKWARD}    {STEP}"),
          fails=("protocol", "autocast off")),
    wrong("a backward that is not scaled", BASE, ("scaler.scale(loss)", "loss"), fails=("protocol", "run")),
    wrong("gradients read before unscale_", BASE.but(
        ready="assert max(p.grad.abs().max() for p in model.parameters()) > -1"
    ), (UNSCALE, ""), fails="protocol", words="read"),
    Case("unscale_ for each micro-batch", ACCUMULATED,
         accumulated(each="    scaler.unscale_(optimizer)\n"), ("protocol", "run")),
    Case("update for each micro-batch", ACCUMULATED,
         accumulated(update="").replace("    if step % 2", "    scaler.update()\n    if step % 2"),
         ("protocol", "run")),
    Case("one of two losses is scaled", GAN,
         gan(("scaler.scale(lossG).backward()", "lossG.backward()")), ("protocol",)),
    Case("the other optimizer steps", GAN, gan(("scaler.step(optG)", "scaler.step(optD)")),
         ("protocol", "run", "parameters trained", "all parameters train")),
]  # fmt: skip
