"""The gradients are unscaled, but only after they have been clipped."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("unscale-after-clip", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find `unscale_` behind the clip that it was meant for."""
    message = (
        "the gradients were clipped before they are unscaled here, so they end up at "
        "`max_norm / scale`; unscale, then clip"
    )
    yield from broken(program, RULE, message, _swap, "unscale before clipping")


def _swap(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    clip = (
        code.module.statement_of(mistake.related[0][0])
        if mistake.related
        else None
    )
    if (
        clip is None
        or not code.alone()
        or not any(clip is s for s in code.block())
    ):
        return None
    return code.move_before(clip, code.statement)
