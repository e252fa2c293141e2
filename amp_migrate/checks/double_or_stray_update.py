"""`scaler.update()` is called twice for one step, or before the step."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._idle_updates import idle_updates
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("double-or-stray-update", severity="error", without_amp=True)

_IDLE = (
    "this scaler has neither scaled a loss nor stepped, so its update raises `Attempted update "
    "but _scale is None`; scale the loss and step with it, or remove it"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find updates without a step of their own."""
    message = (
        "this update has no step of its own: it raises `No inf checks were recorded prior to "
        "update`, or forgets that the gradients were divided already; update once, after the "
        "step"
    )
    yield from broken(
        program, RULE, message, _mend, "update once, after the step"
    )
    for call in idle_updates(program):
        yield finding_at(program, call, RULE, _IDLE)


def _mend(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    if not code.alone():
        return None
    behind = code.after(code.statement)
    steps = [s for s in behind if code.is_event(s, EventKind.SCALER_STEP)]
    if steps:
        update_follows = any(code.is_event(s, EventKind.UPDATE) for s in behind)
        return (
            (code.remove(code.statement),)
            if update_follows
            else code.move_after(steps[-1], code.statement)
        )
    above = code.before(code.statement)
    return (
        (code.remove(code.statement),)
        if any(code.is_event(s, EventKind.UPDATE) for s in above)
        else None
    )
