"""The gradients are unscaled, but the optimizer steps without the scaler's check for infinities."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.checks.bare_optimizer_step import through_the_scaler
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("bare-step-after-unscale", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find steps past the scaler on gradients that it has unscaled."""
    message = (
        "the optimizer steps past the scaler, so the first overflow puts infinities into the "
        "weights; "
        "write `scaler.step(optimizer)`, which does not divide again"
    )
    yield from broken(
        program, RULE, message, through_the_scaler, "step through the scaler"
    )
