"""A guard against bad gradients leaves the iteration after `unscale_` without `update()`."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("nan-guard-skips-update", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find exits between `unscale_` and `update`."""
    message = (
        "the iteration ends after `unscale_()` without `update()`, so the next `unscale_()` "
        "raises; "
        "call `scaler.update()` before leaving, or drop the guard: `scaler.step` skips "
        "infinities by itself"
    )
    yield from broken(
        program, RULE, message, _update, "call `scaler.update()` before leaving"
    )


def _update(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    if mistake.scaler is None or not code.sees(mistake.scaler):
        return None
    return (
        code.add_before(
            code.statement, f"{code.source(mistake.scaler)}.update()"
        ),
    )
