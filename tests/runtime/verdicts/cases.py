"""The form of a case: a training program in its plain version and with AMP."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field, replace

Edit = tuple[str, str]


@dataclass(frozen=True)
class Program:
    """Parts of a training program; `plain` and `amp` put them together.

    The parts are pieces of source: `forward` defines `loss` from `x` and `y`; `ready` stands
    between the backward and the step, where gradients must be unscaled.
    """

    model: str = "nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))"
    forward: str = "loss = F.mse_loss(model(x), y)"
    ready: str = ""
    head: str = ""
    data: str = "x, y = torch.randn(16, 8), torch.randn(16, 1)"
    optimizer: str = "torch.optim.SGD(model.parameters(), lr=0.05)"
    before: str = ""
    after: str = ""
    seed: str = "torch.manual_seed(0)"
    steps: int = 12
    dtype: str = "float16"

    def plain(self) -> str:
        """As people write it without AMP."""
        return self._text("", self.forward, "loss.backward()", self.ready, "optimizer.step()")

    def amp(self) -> str:
        """The right conversion."""
        region = f'with torch.autocast("cuda", dtype=torch.{self.dtype}, enabled=use_amp):\n'
        region += textwrap.indent(self.forward, "    ")
        if self.dtype == "bfloat16":
            return self._text("", region, "loss.backward()", self.ready, "optimizer.step()")
        make = 'scaler = torch.amp.GradScaler("cuda", enabled=use_amp)'
        ready = f"scaler.unscale_(optimizer)\n{self.ready}" if self.ready else ""
        end = "scaler.step(optimizer)\nscaler.update()"
        return self._text(make, region, "scaler.scale(loss).backward()", ready, end)

    def _text(self, scaler: str, forward: str, backward: str, ready: str, step: str) -> str:
        loop = "\n".join(
            part
            for part in (
                self.data, self.before, "x, y = x.to(device), y.to(device)", "optimizer.zero_grad()",
                forward, backward, ready, step, self.after,
            )
            if part
        )  # fmt: skip
        setup = [
            "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n",
            self.seed,
            'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
            'use_amp = device.type == "cuda"',
            self.head,
            f"model = {self.model}.to(device)",
            f"optimizer = {self.optimizer}",
            scaler,
            f"for step in range({self.steps}):",
            textwrap.indent(loop, "    "),
        ]
        return "\n".join(part for part in setup if part) + "\n"

    def but(self, **parts: object) -> Program:
        """The same with other parts."""
        return replace(self, **parts)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """`fails` names a check (without the run's name) that must fail; None: all must pass."""

    name: str
    before: str
    after: str
    fails: tuple[str, ...] = ()
    dtype: str = "float16"
    words: str = ""
    """Part of the message of the failed check."""
    tags: tuple[str, ...] = field(default=())


def right(name: str, program: Program, *edits: Edit) -> Case:
    """The conversion of `program`, edited, is right."""
    return Case(name, program.plain(), edited(program.amp(), *edits), (), program.dtype)


def wrong(
    name: str, program: Program, *edits: Edit, fails: str | tuple[str, ...], words: str = ""
) -> Case:
    """The conversion, edited, is wrong, and one of the checks `fails` says so."""
    names = (fails,) if isinstance(fails, str) else fails
    return Case(name, program.plain(), edited(program.amp(), *edits), names, program.dtype, words)


def edited(text: str, *edits: Edit) -> str:
    """`text` with each piece replaced; every piece must be there."""
    for old, new in edits:
        assert old in text, f"{old!r} is not in\n{text}"
        text = text.replace(old, new)
    return text
