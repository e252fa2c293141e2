"""An inner loop steps an optimizer several times, and `update()` stands outside of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import Trait
from amp_migrate.model.syntax.module import LOOPS
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("n-critic-steps-one-update", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find steps in an inner loop whose update stands behind it."""
    message = (
        "the inner loop steps again before `scaler.update()`, which raises `step() has already "
        "been called since the "
        "last update()`; update after each step"
    )
    yield from broken(
        program,
        RULE,
        message,
        _update,
        "call `scaler.update()` after each step",
    )


def _update(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    loop = next(
        (
            a
            for a in code.module.ancestors(code.statement)
            if isinstance(a, LOOPS)
        ),
        None,
    )
    if (
        loop is None
        or not code.alone()
        or code.module.scope_of(loop) is not code.scope
    ):
        return None
    if any(_goes_back(code, statement) for statement in code.before(loop)):
        return None
    name = code.source(receiver(mistake.node))
    edits = (code.add_after(code.statement, f"{name}.update()"),)
    stray = [s for s in code.after(loop) if code.is_event(s, EventKind.UPDATE)]
    steps = any(
        Trait.SCALER in code.events.of_node(s, code.scope)
        for s in code.after(loop)
        if s not in stray
    )
    return (
        (*edits, *(code.remove(s) for s in stray))
        if stray and not steps
        else edits
    )


def _goes_back(code: Code, statement: ast.stmt) -> bool:
    return bool(
        code.events.of_node(statement, code.scope)
        & (Trait.SCALER | Trait.PLAIN)
    )
