"""Sums of many terms, one a turn of a loop: in half precision each turn rounds, and what is less
than half a step of the sum is lost. The terms are added in float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.divided_sums import is_count
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.tensors.dimensions import Dimensions
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.spelling import spelled
from amp_migrate.model.values.literals import number
from amp_migrate.model.values.numbers import numbers

_MANY = 64
"""Turns from which on the rounding errors add up to a percent."""
_DEEP = 8
_TOGETHER = ("enumerate", "zip", "reversed", "tqdm")


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """`total = total + h`, `state += dt * f(state)` in a loop of many turns."""
    if isinstance(node, ast.Call):
        yield from _of_rows(asked, node, scope)
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return
    name, added = _addition(node)
    if added is None or not asked.fact(added, scope).seen_half:
        return
    loop = _loop(asked, node)
    if loop is None or not asked.inference.inside(loop):
        return
    begins = _begins(asked, node, name, loop)
    if begins is None or not _has_many(asked, loop.iter, scope):
        return
    message = (
        f"`{name}` adds up many terms in half precision, which loses the small"
    )
    yield Hazard("loses-precision", node, tuple(begins) or (added,), message)


def _of_rows(asked: Asked, call: ast.Call, scope: Scope) -> Iterator[Hazard]:
    """`sum(energies)`: Python adds up the rows of a tensor one by one, in its dtype."""
    func = call.func
    if not isinstance(func, ast.Name) or func.id != "sum" or not call.args:
        return
    rows = call.args[0]
    fact = asked.fact(rows, scope)
    if scope.lookup(func.id) is not None or not fact.seen_half:
        return
    if _is_tensor(asked, rows, scope):
        message = f"`{ast.unparse(call)}` adds up any number of rows in half precision"
        yield Hazard("loses-precision", call, (rows,), message)


def _is_tensor(asked: Asked, rows: ast.expr, scope: Scope) -> bool:
    """Whether it is no list: by its dimensions, or since numbers were added to it."""
    if Dimensions(asked.inference).least(rows, scope, _DEEP):
        return True
    made = [rows]
    if isinstance(rows, ast.Name):
        reach = asked.inference.program.reaching.at(rows, rows.id)
        made = [one.value for one in reach.bindings if one.value is not None]
    return bool(made) and all(
        isinstance(one, ast.BinOp)
        and any(
            number(side, scope) is not None for side in (one.left, one.right)
        )
        for one in made
    )


def _addition(
    node: ast.Assign | ast.AugAssign,
) -> tuple[str, ast.expr | None]:
    """The name of a sum, and what is added to it."""
    if isinstance(node, ast.AugAssign):
        is_sum = isinstance(node.op, (ast.Add, ast.Sub))
        return dotted_name(node.target) or "", node.value if is_sum else None
    name, value = dotted_name(node.targets[0]), node.value
    if name is None or not isinstance(value, ast.BinOp):
        return "", None
    if isinstance(value.op, (ast.Add, ast.Sub)):
        if dotted_name(value.left) == name:
            return name, value.right
        if isinstance(value.op, ast.Add) and dotted_name(value.right) == name:
            return name, value.left
    return "", None


def _loop(asked: Asked, node: ast.AST) -> ast.For | None:
    """The innermost `for` of the same function."""
    for one in asked.inference.program.module.ancestors(node):
        if isinstance(one, ast.For):
            return one
        if isinstance(one, FUNCTIONS):
            return None
    return None


def _begins(
    asked: Asked, node: ast.stmt, name: str, loop: ast.For
) -> list[ast.expr] | None:
    """What a sum begins with before the loop, where that is half; None where it is float32, or
    begins anew in each turn.
    """
    module = asked.inference.program.module
    bindings = asked.inference.program.reaching.at(node, name).bindings
    values = [
        one.value
        for one in bindings
        if one.value is not None and loop not in module.ancestors(one.statement)
    ]
    inside = [one for one in bindings if one.statement is node]
    if not inside or not values or len(values) + len(inside) != len(bindings):
        return None
    found = []
    for value in values:
        fact = asked.fact(value, module.scope_of(value))
        if fact.dtypes & ~(DType.NUMBER | DType.HALF):
            return None
        found += [value] if fact.seen_half else []
    return found


def _has_many(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """Whether a loop over it has many turns: a large number, or as many as a tensor has rows."""
    if not isinstance(expr, ast.Call):
        fact = asked.fact(expr, scope)
        return not fact.container and fact.floats_alone
    if not isinstance(expr.func, ast.Name):
        found = spelled(asked.inference, expr, scope)
        if found is not None and found.op.name == "unbind":
            return True
        fact = asked.fact(expr, scope)
        return not fact.container and fact.floats_alone
    if expr.func.id in _TOGETHER:
        return any(_has_many(asked, one, scope) for one in expr.args)
    if expr.func.id != "range" or not expr.args:
        return False
    end = expr.args[:2][-1]
    known = numbers(asked.inference.program, end, scope)
    if known:
        return max(known) >= _MANY
    return is_count(asked, end, scope) and not _counts_parts(end)


def _counts_parts(end: ast.expr) -> bool:
    """`len(self.layers)`"""
    return isinstance(end, ast.Call) and dotted_name(end.func) == "len"
