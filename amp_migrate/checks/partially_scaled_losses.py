"""Of several losses for the same parameters, only some are scaled."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.checks.unscaled_backward_with_scaler_step import scale_it
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("partially-scaled-losses", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find plain backward passes beside scaled ones before one step."""
    message = (
        "this loss is not multiplied by the scaler's factor (65,536 at first), but its "
        "gradients are divided by it: it counts that much too little; write "
        "`scaler.scale(loss).backward()`"
    )
    yield from broken(
        program,
        RULE,
        message,
        scale_it,
        "scale this loss too: it starts to count",
        "unsafe",
    )
