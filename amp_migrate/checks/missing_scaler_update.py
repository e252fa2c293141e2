"""`scaler.step()` is called in a loop and `scaler.update()` is not."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.edits import Edit
from amp_migrate.lint.finding import Finding, Rule
from amp_migrate.model.mistakes import Mistake
from amp_migrate.model.program import Program

RULE = Rule("missing-scaler-update", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Ask for steps of the scaler that meet the next one without an update between."""
    message = (
        "no `scaler.update()` before the next step, which raises `step() has already been called since the last "
        "update()` on a GPU; call it after the step"
    )
    yield from broken(program, RULE, message, _update, "call `scaler.update()` after the step")


def _update(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    if mistake.optimizers > 1 or mistake.updates or not code.alone():
        return None
    return (code.add_after(code.statement, f"{code.source(receiver(mistake.node))}.update()"),)
