"""Places that are seen by sines of large frequencies, `sin(2.0 ** i * (pose @ rays))`: the
positional encoding of points on rays.

Half precision rounds a place near 1 by 2 ** -11, which is a quarter of a turn at frequency 2 ** 9;
what is added to it in float32 afterwards does not bring it back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard, is_double
from amp_migrate.model.half_safety.moved_places import products_behind
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.numbers import numbers
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops.roles import WAVES
from amp_migrate.torch_facts.ops.row import INFINITY

_DEEP = 8
_FAST = 64.0
"""From there on the rounding of places near 1 turns angles by hundredths of a radian."""
_LINEAR = (ast.Mult, ast.Add, ast.Sub)
_SAME = frozenset(row.name for row in ops.shapes.ROWS if row.result == "same")


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The products that such places are made of, which must be computed with autocast off."""
    for place, home in turned_places(asked, node, scope):
        for product, given, where in products_behind(asked, place, home):
            is_kept = is_double(asked, given, where)
            if asked.inference.inside(product) and not is_kept:
                yield _kept_apart(asked, node, product, given, where)


def turned_places(
    asked: Asked, node: ast.AST, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What a sine or cosine sees many times."""
    if not isinstance(node, ast.Call):
        return
    found = spelled(asked.inference, node, scope)
    if found is not None and found.op.name in WAVES:
        for angle in operands(found, node)[:1]:
            yield from _turned(asked, angle, scope, 1.0, _DEEP)


def _kept_apart(
    asked: Asked,
    node: ast.AST,
    product: ast.expr,
    given: list[ast.expr],
    scope: Scope,
) -> Hazard:
    casts = tuple(one for one in given if asked.needs_cast(one, scope))
    message = (
        f"`{ast.unparse(product)}` gives places that `{ast.unparse(node)}` turns many times, and "
        "half precision rounds them: compute it with autocast switched off"
    )
    return Hazard("loses-precision", product, casts, message)


def _turned(
    asked: Asked, expr: ast.expr, scope: Scope, by: float, deep: int
) -> Iterator[tuple[ast.expr, Scope]]:
    """What an angle multiplies with a large number, or with one that nothing tells."""
    if deep == 0:
        return
    if isinstance(expr, ast.BinOp):
        yield from _of_operation(asked, expr, scope, by, deep - 1)
    elif isinstance(expr, ast.Name):
        for value, home in values_of(asked, expr):
            yield from _turned(asked, value, home, by, deep - 1)
    elif isinstance(expr, ast.Subscript):
        yield from _turned(asked, expr.value, scope, by, deep - 1)
    elif isinstance(expr, ast.Call):
        found = spelled(asked.inference, expr, scope)
        if found is not None and found.op.name in _SAME:
            for one in operands(found, expr):
                yield from _turned(asked, one, scope, by, deep - 1)


def _of_operation(
    asked: Asked, expr: ast.BinOp, scope: Scope, by: float, deep: int
) -> Iterator[tuple[ast.expr, Scope]]:
    for one, other in ((expr.left, expr.right), (expr.right, expr.left)):
        times = by
        if isinstance(expr.op, ast.Mult):
            sizes = numbers(asked.inference.program, other, scope)
            times *= max(map(abs, sizes), default=INFINITY)
        if times >= _FAST:
            yield one, scope
        elif isinstance(expr.op, _LINEAR) or one is expr.left:
            yield from _turned(asked, one, scope, times, deep)
