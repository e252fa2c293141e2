"""`unscale_` is called twice for one optimizer before the next update, which raises."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("double-unscale", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find a second `unscale_` of the same gradients."""
    message = (
        "`unscale_` was already called for this optimizer since the last update, so this raises "
        "where the scaler is "
        "on; call it once"
    )
    yield from broken(program, RULE, message, _drop, "call `unscale_` once")


def _drop(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    """The second call goes where the first one stands above it in the same block."""
    first = (
        code.module.statement_of(mistake.related[0][0])
        if mistake.related
        else None
    )
    if (
        first is None
        or not code.alone()
        or not any(first is s for s in code.before(code.statement))
    ):
        return None
    return (code.remove(code.statement),)
