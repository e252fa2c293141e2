"""`unscale_` runs for every micro-batch, the step only for some."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("unscale-each-micro-batch", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find `unscale_` of gradients that go on accumulating."""
    message = (
        "more gradients are added after this `unscale_`: the next call raises, or divides what "
        "is there again; "
        "unscale only before the step, under its condition"
    )
    yield from broken(
        program, RULE, message, _move, "unscale right before the step"
    )


def _move(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    behind = code.after(code.statement)
    step = code.guarded(behind, EventKind.SCALER_STEP)
    if step is None or not code.alone():
        return None
    clips = list(
        itertools.takewhile(lambda s: code.is_event(s, EventKind.CLIP), behind)
    )
    return code.move_before(step, code.statement, *clips)
