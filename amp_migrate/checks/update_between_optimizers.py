"""The scale changes while gradients made under the old scale wait for their step."""

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

RULE = Rule("update-between-optimizers", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find updates before gradients of the old scale are stepped."""
    message = (
        "the scale may change here while gradients of the old scale wait for their step, which "
        "would be twice or half "
        "as large; update once, after the last step"
    )
    yield from broken(
        program, RULE, message, _keep_the_last, "keep only the last update"
    )


def _keep_the_last(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    later = any(
        code.is_event(s, EventKind.UPDATE) for s in code.after(code.statement)
    )
    return (code.remove(code.statement),) if later and code.alone() else None
