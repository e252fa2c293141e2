"""An optimizer is stepped by the scaler in iterations that gave it no gradients."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._guarded_backwards import unfed_steps
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("optimizer-without-grads", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find unconditional steps of an optimizer whose loss is conditional."""
    message = (
        "this optimizer has no gradients in some iterations, where the scaler raises `No inf "
        "checks were recorded for "
        "this optimizer`; step it under the condition of its loss"
    )
    yield from broken(program, RULE, message)
    for call in unfed_steps(program, cleared=True):
        yield finding_at(program, call, RULE, message)
