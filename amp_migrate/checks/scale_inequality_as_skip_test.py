"""A change of the scale is taken for a skipped step, but the scale also grows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.config import Settings
from amp_migrate.lint.finding import Finding, Fix, Rule, finding_at
from amp_migrate.model.mistakes import events_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope

RULE = Rule("scale-inequality-as-skip-test", severity="warning")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Ask for `==` and `!=` between two values of the scale."""
    if "get_scale" not in program.module.text:
        return
    message = (
        "the scale also changes when it grows, so a real step counts as skipped; a step was skipped where the scale "
        "is smaller than before"
    )
    for node in program.module.parents:
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            continue
        scope = program.module.scope_of(node)
        left, right = _taken(program, node.left, scope), _taken(program, node.comparators[0], scope)
        update = _update_between(program, scope, left, right)
        if left is None or right is None or update is None:
            continue
        yield finding_at(
            program,
            node,
            RULE,
            message,
            related=[(update, "the scale may change here")],
            fix=_fix(program, node, left, right),
        )


def _taken(program: Program, expr: ast.expr, scope: Scope) -> ast.Call | None:
    """The `get_scale()` call whose value `expr` is."""
    if isinstance(expr, ast.Name):
        home = scope.lookup(expr.id)
        values = [b.value for b in home.bindings[expr.id] if b.value is not None and b.index is None] if home else []
        found = [v for v in values if _is_get_scale(program, v, home or scope)]
        return found[-1] if found and len(found) == len(values) else None  # type: ignore[return-value]
    return expr if _is_get_scale(program, expr, scope) else None  # type: ignore[return-value]


def _is_get_scale(program: Program, expr: ast.expr, scope: Scope) -> bool:
    func = expr.func if isinstance(expr, ast.Call) else None
    return (
        isinstance(func, ast.Attribute) and func.attr == "get_scale" and events_of(program).is_scaler(func.value, scope)
    )


def _update_between(program: Program, scope: Scope, left: ast.Call | None, right: ast.Call | None) -> ast.Call | None:
    if left is None or right is None:
        return None
    events = events_of(program)
    first, last = sorted((left.lineno, right.lineno))
    return next((c for c in scope.calls if events.what(c, scope) == "update" and first <= c.lineno <= last), None)


def _fix(program: Program, node: ast.Compare, left: ast.Call, right: ast.Call) -> Fix:
    is_late = (left.lineno, left.col_offset) > (right.lineno, right.col_offset)
    unequal = isinstance(node.ops[0], ast.NotEq)
    sign = ("<" if is_late else ">") if unequal else (">=" if is_late else "<=")
    edit = Code(program, node).replace(node, f"$0 {sign} $1", node.left, node.comparators[0])
    return Fix("safe", "ask whether the scale is smaller than before", (edit,))
