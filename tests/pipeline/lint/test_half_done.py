"""Mixed precision that somebody began: safe fixes make it whole, in a function, at module level
and in a class.
"""

from __future__ import annotations

import textwrap

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint import fix_text, lint_text

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
MADE = """\
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
"""
LOOP = """\
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "x.pt")
"""


def owned(text: str) -> str:
    for name in ("model", "optimizer", "scaler"):
        text = text.replace(f"{name}.", f"self.{name}.").replace(f"{name} =", f"self.{name} =")
    text = text.replace("(model(", "(self.model(").replace("_(optimizer", "_(self.optimizer")
    return text.replace("step(optimizer", "step(self.optimizer")


def indented(text: str, by: int) -> str:
    return textwrap.indent(text, " " * by)


HOMES = {
    "function": f"def main(loader):\n{indented(MADE + LOOP, 4)}",
    "module": MADE + "loader = torch.load('loader.pt')\n" + LOOP,
    "class": (
        f"class Trainer:\n    def __init__(self):\n{indented(owned(MADE), 8)}\n"
        f"    def fit(self, loader):\n{indented(owned(LOOP), 8)}"
    ),
}
LOST = {
    "the scaler": ("made", "scale", "unscale", "step", "update", "state"),
    "step": ("step",),
    "step and update": ("step", "update", "unscale"),
    "unscale_": ("unscale",),
    "update": ("update",),
    "scale": ("scale",),
    "state": ("state",),
    "all but scale": ("unscale", "step", "update", "state"),
}


def without(text: str, parts: tuple[str, ...]) -> str:
    scaler, optimizer = (
        ("self.scaler", "self.optimizer") if "self." in text else ("scaler", "optimizer")
    )
    gone = {
        "made": f"{scaler} = ",
        "unscale": f"{scaler}.unscale_(",
        "update": f"{scaler}.update()",
    }
    starts = tuple(gone[part] for part in parts if part in gone)
    text = "".join(
        line
        for line in text.splitlines(keepends=True)
        if not starts or not line.lstrip().startswith(starts)
    )
    if "scale" in parts:
        text = text.replace(f"{scaler}.scale(loss)", "loss")
    if "step" in parts:
        text = text.replace(f"{scaler}.step({optimizer})", f"{optimizer}.step()")
    return text.replace(f', "scaler": {scaler}.state_dict()', "") if "state" in parts else text


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("lost", LOST)
def test_it_is_made_whole(home: str, lost: str) -> None:
    whole = HEAD + HOMES[home]
    half = without(whole, LOST[lost])
    assert lint_text(whole, "train.py", Settings()) == []
    assert lint_text(half, "train.py", Settings()) != []
    assert fix_text(half, "train.py", Settings(target_torch=(2, 4))) == whole
