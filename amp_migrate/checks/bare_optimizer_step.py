"""The optimizer steps on scaled gradients, past the scaler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.checks._protocol import broken
from amp_migrate.checks._scaler_bindings import bindings
from amp_migrate.config import Settings
from amp_migrate.model.conditions.arms import are_exclusive
from amp_migrate.model.program import Program
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("bare-optimizer-step", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find steps past the scaler on gradients that are still scaled."""
    message = (
        "the optimizer steps on gradients that still carry the scaler's factor (65,536 at "
        "first), and infinite ones are not skipped; "
        "write `scaler.step(optimizer)` and `scaler.update()`"
    )
    yield from broken(
        program, RULE, message, through_the_scaler, "step through the scaler"
    )


def through_the_scaler(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    """`optimizer.step()` becomes `scaler.step(optimizer)`, and `scaler.update()` follows where
    there is none.
    """
    scaler = mistake.scaler
    if (
        scaler is None
        or not code.sees(scaler)
        or not isinstance(mistake.node, ast.Call)
    ):
        return None
    is_updated = any(_follows(code, one) for one in mistake.updates)
    if mistake.optimizers > 1 and not is_updated:
        return None
    name = code.source(scaler)
    if _may_be_missing(code, name):
        return None
    step = code.replace(
        mistake.node, f"{name}.step($0)", receiver(mistake.node)
    )
    if is_updated:
        return (step,)
    return step, code.add_after(code.statement, f"{name}.update()")


def _may_be_missing(code: Code, scaler: str) -> bool:
    """Whether the scaler is made by one arm of an expression only, and no test around asks for
    it.
    """
    scope = code.module.scope_of(code.statement)
    made = [value for _, value in bindings(code.program, scope, scaler)]
    return any(isinstance(one, ast.IfExp) for one in made) and not any(
        isinstance(around, ast.If) and scaler in ast.unparse(around.test)
        for around in code.module.ancestors(code.statement)
    )


def _follows(code: Code, update: ast.AST) -> bool:
    """Whether the update may come after the step; not where one runs only if the other does not."""
    program = code.program
    is_here = program.module.scope_of(update) is code.scope
    return not is_here or not are_exclusive(program, update, code.node)
