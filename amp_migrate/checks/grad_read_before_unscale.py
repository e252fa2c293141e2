"""Gradients are read while they are still scaled."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.checks.clip_without_unscale import unscale_first
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("grad-read-before-unscale", severity="warning", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find reads of gradients between a scaled backward and `unscale_`."""
    message = (
        "the gradients still carry the scaler's factor here, so what is read is too large by it "
        "(65,536 at first); "
        "call `scaler.unscale_(optimizer)` before"
    )
    how = "unscale before reading: what is logged or compared changes"
    yield from broken(program, RULE, message, unscale_first, how, "unsafe")
