"""Gradients are accumulated over several batches, and the loss is not divided by their number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, shallow

RULE = Rule(
    "loss-not-divided-for-accumulation", severity="warning", default=False
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find scaled backward passes before a conditional step, in a loop without any division."""
    events = program.events
    message = (
        "the gradient is the sum over the accumulated batches, and overflows earlier; "
        "divide the loss by their number"
    )
    for scope in events.scaler_scopes():
        for call in scope.calls:
            code = Code(program, call)
            loop = next(
                (
                    a
                    for a in program.module.ancestors(code.statement)
                    if isinstance(a, LOOPS)
                ),
                None,
            )
            if (
                loop is None
                or events.what(call, scope) != EventKind.BACKWARD
                or code.guarded(
                    code.after(code.statement), EventKind.SCALER_STEP
                )
                is None
            ):
                continue
            if _steps_each_time(code) or any(
                _divides(node) for node in shallow(loop)
            ):
                continue
            if any(code.is_event(s, EventKind.ZERO_GRAD) for s in loop.body):
                continue
            yield finding_at(program, call, RULE, message)


def _steps_each_time(code: Code) -> bool:
    """Whether the gradients are used right behind their backward: the step under a condition is
    that of another optimizer.
    """
    return any(
        code.is_event(statement, EventKind.SCALER_STEP)
        for statement in code.after(code.statement)
    )


def _divides(node: ast.AST) -> bool:
    """`a / b` or `a /= b`"""
    return isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(
        node.op, ast.Div
    )
