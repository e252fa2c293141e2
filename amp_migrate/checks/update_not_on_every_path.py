"""`unscale_` runs in every iteration, `update()` only in some."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("update-not-on-every-path", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find updates that an iteration with `unscale_` may skip."""
    message = (
        "an iteration that skips this update makes the next `unscale_()` raise; skip the step if "
        "need be, "
        "but update in every iteration that unscales"
    )
    yield from broken(
        program, RULE, message, _move, "update whether or not the step is taken"
    )


def _move(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    outer = code.module.parents[code.statement]
    if (
        not code.alone()
        or not isinstance(outer, ast.If)
        or len(code.block()) < 2
    ):
        return None
    return code.move_after(outer, code.statement)
