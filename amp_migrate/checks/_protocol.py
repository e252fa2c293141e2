"""The rules of the scaler's protocol ask one analysis; each adds its words and its fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, Safety, finding_at
from amp_migrate.model.program import Program
from amp_migrate.protocol.broken import Mistake
from amp_migrate.protocol.mistakes import mistakes
from amp_migrate.rewrite.edits import Edit

Mend = Callable[[Code, Mistake], "tuple[Edit, ...] | None"]
"""The edits that mend a mistake, or None where that takes a person."""


def broken(
    program: Program,
    rule: Rule,
    message: str | Callable[[Mistake], str],
    mend: Mend | None = None,
    how: str = "",
    safety: Safety = "safe",
) -> Iterator[Finding]:
    """Findings of one rule of the protocol; `how` says what the fix does."""
    for mistake in mistakes(program):
        if mistake.rule != rule.name:
            continue
        edits = (
            mend(Code(program, mistake.node), mistake)
            if mend is not None
            else None
        )
        fix = Fix(safety, how, edits) if edits else None
        yield finding_at(
            program,
            mistake.node,
            rule,
            message if isinstance(message, str) else message(mistake),
            related=mistake.related,
            fix=fix,
        )
