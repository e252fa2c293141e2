"""The scale may change between the micro-batches of one accumulated step."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("update-while-accumulating", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find updates outside the condition of the accumulated step."""
    message = (
        "the scale may change while gradients accumulate, and one division cannot undo two scales; "
        "update only after the step, under its condition"
    )
    yield from broken(
        program, RULE, message, _move, "update right after the step"
    )


def _move(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    step = code.guarded(code.before(code.statement), EventKind.SCALER_STEP)
    if step is None or mistake.optimizers > 1 or not code.alone():
        return None
    return code.move_after(step, code.statement)
