"""The scaler steps the optimizer, but the loss was never scaled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule(
    "unscaled-backward-with-scaler-step", severity="error", without_amp=True
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find plain backward passes whose gradients the scaler steps with."""
    message = (
        "the scaler divides the gradients by a factor that this loss was never multiplied by, or "
        "raises; "
        "write `scaler.scale(loss).backward()`, with the scaler that steps"
    )
    yield from broken(program, RULE, message, scale_it, "scale the loss")


def scale_it(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    """`loss.backward()` becomes `scaler.scale(loss).backward()`."""
    call, scaler = mistake.node, mistake.scaler
    if (
        scaler is None
        or not code.sees(scaler)
        or not isinstance(call, ast.Call)
    ):
        return None
    if code.program.canonical(call.func) == "torch.autograd.backward":
        return None
    loss = receiver(call)
    return (code.replace(loss, f"{code.source(scaler)}.scale($0)", loss),)
