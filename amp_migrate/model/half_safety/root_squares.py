"""Roots of squares and divisions by them: lengths, root mean squares. In float16 the square of 300
is infinite, and that of 1e-4 is 0; powers are float32 under autocast, `x * x` is not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.distances import squared
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.second_moments import origins
from amp_migrate.model.half_safety.singular import singular
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.dimensions import Dimensions
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.numbers import numbers
from amp_migrate.torch_facts.methods import KEEP_MAGNITUDE
from amp_migrate.torch_facts.ops import Trait

_DEEP = 6


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The squares in half precision behind the root, or the divisor, at `node`."""
    for operand, demand in singular(asked, node, scope):
        if demand.trait not in (Trait.SQRT, Trait.DIVIDES):
            continue
        for square, home in _squares(asked, operand, scope, _DEEP):
            inside = asked.inference.inside(square)
            if inside and _may_be_half(asked, square.left, home):
                yield _hazard(asked, square, home)


def _may_be_half(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """Whether it is half, or nothing tells, and no number is given for it."""
    program = asked.inference.program
    is_half = asked.needs_cast(expr, scope)
    return is_half and not numbers(program, expr, scope)


def _hazard(asked: Asked, square: ast.BinOp, scope: Scope) -> Hazard:
    """One factor in float32 is enough, unless it may be a number beside a tensor."""
    message = f"`{ast.unparse(square)}` passes float16's range on either side"
    shown = Dimensions(asked.inference).least(square.left, scope, _DEEP)
    casts = (square.left,) if shown else (square.left, square.right)
    return Hazard("loses-precision", square, casts, message)


def _squares(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[tuple[ast.BinOp, Scope]]:
    """`x * x` that a value is the sum or the mean of."""
    if deep == 0:
        return
    for one, home in origins(asked, expr, scope, _DEEP):
        is_product = isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)
        if is_product and squared(asked, one, home) is not None:
            assert isinstance(one, ast.BinOp)
            yield one, home
        for inner in _sides(asked, one, home):
            yield from _squares(asked, inner, home, deep - 1)


def _sides(asked: Asked, expr: ast.expr, scope: Scope) -> list[ast.expr]:
    """The terms of a sum, and what is added up."""
    if isinstance(expr, ast.BinOp):
        is_sum = isinstance(expr.op, (ast.Add, ast.Sub))
        return [expr.left, expr.right] if is_sum else []
    if not isinstance(expr, ast.Call):
        return []
    found = spelled(asked.inference, expr, scope)
    is_kept = found is not None and found.op.name in KEEP_MAGNITUDE
    return operands(found, expr)[:1] if found is not None and is_kept else []
