"""A small constant against division by zero is itself zero in float16."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._half import may_be_float16, to_float
from amp_migrate.config import Settings
from amp_migrate.model.literals import number
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope, shallow

RULE = Rule("eps-underflow", severity="warning", default=False)
# Half of float16's smallest number is 2 ** -25; the page says 3e-8.
SMALLEST = 3e-8
_BOUNDS = {"clamp", "clamp_", "clip", "clamp_min", "clamp_min_"}
_MESSAGE = (
    "`{eps}` is zero in float16, so it protects from nothing: cast the value with "
    "`.float()`, or use 1e-6"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Summands and lower bounds of values that are float16 for certain."""
    if not program.regions.regions:
        return
    for scope in program.module.scopes.values():
        for place, constant, tensor in _uses(scope):
            value = number(constant, scope)
            if (
                value is not None
                and 0 < value < SMALLEST
                and may_be_float16(program, tensor, scope)
            ):
                message = _MESSAGE.format(eps=program.module.source(constant))
                fix = to_float(
                    program,
                    [tensor],
                    safe=False,
                    message="convert to float32, which costs memory",
                )
                yield finding_at(program, place, RULE, message, fix=fix)


def _uses(scope: Scope) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Where a constant meets a value, the constant, and the value."""
    for statement in scope.body:
        if isinstance(
            statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            continue
        for node in shallow(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                yield node, node.right, node.left
                yield node, node.left, node.right
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _BOUNDS
            ):
                for given in [
                    *node.args[:1],
                    *(one.value for one in node.keywords if one.arg == "min"),
                ]:
                    yield node, given, node.func.value
