"""The optimizer steps twice: by the scaler and by itself."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("double-optimizer-step", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find plain steps beside the scaler's."""
    message = (
        "the scaler steps this optimizer already: each batch makes two updates, and the second "
        "applies the infinities "
        "that the scaler kept out; delete the plain step"
    )
    yield from broken(program, RULE, message, _delete, "delete the plain step")


def _delete(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    same_block = mistake.related and code.is_here(mistake.related[0][0])
    if not code.alone() or not (same_block or code.block() is not None):
        return None
    return (
        (code.remove(code.statement),)
        if not _after_branches(code, mistake)
        else None
    )


def _after_branches(code: Code, mistake: Mistake) -> bool:
    """The plain step also serves a branch without AMP."""
    if not mistake.related or not code.is_here(mistake.related[0][0]):
        return False
    other = code.module.statement_of(mistake.related[0][0])
    return code.block(other) is not code.block()
