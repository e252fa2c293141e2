"""Positions in half precision: products of matrices with what is counted or solved for, and
positions that take over the dtype of an activation.

Pixels, anchors and time steps of some hundreds mean fractions of one, and inverses add up terms
that nearly cancel: both need more than the eleven digits of float16.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.extents import extent
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.moved_places import (
    made_of,
    products_behind,
    sampled_at,
)
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.half_safety.products import (
    behind,
    product_factors,
)
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import (
    operands,
    operands_and_others,
    spelled,
)
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts.amp_api import HALF_MAX
from amp_migrate.torch_facts.ops import Spelling, Trait
from amp_migrate.torch_facts.ops.roles import SQUARES
from amp_migrate.torch_facts.ops.row import INFINITY

_TOLD_APART, _TOLD_APART_IN_BFLOAT16 = 256.0, 32.0
"""Up to there the half types tell eighths apart."""
_WHOLE = 2048.0
"""Up to there float16 has every whole number."""
_RULE = "loses-precision"


def _limit(asked: Asked) -> float:
    return _TOLD_APART if asked.float16 else _TOLD_APART_IN_BFLOAT16


def products(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """`inverse_intrinsics @ pixels`, `torch.bmm(rotation, grid)`, and what such a matrix is the
    product of.
    """
    if not isinstance(node, ast.expr) or not asked.inference.inside(node):
        return
    given = product_factors(asked, node, scope)
    reach = max((extent(asked, one, scope) for one in given), default=0.0)
    if reach <= _limit(asked):
        return
    yield _of_places(asked, node, given, scope, reach)
    for one in given:
        for product, factors, home in products_behind(asked, one, scope):
            if asked.inference.inside(product):
                yield _of_places(asked, product, factors, home, INFINITY)


def _of_places(
    asked: Asked,
    node: ast.expr,
    given: list[ast.expr],
    scope: Scope,
    reach: float,
) -> Hazard:
    """`reach`: how far they go, infinite where nothing tells."""
    casts = tuple(one for one in given if asked.needs_cast(one, scope))
    message = (
        f"`{ast.unparse(node)}` is a product with positions or an inverse, which half precision "
        "does not tell apart: compute it with autocast switched off"
    )
    spoils = _WHOLE < reach <= HALF_MAX
    return Hazard(_RULE, node, casts, message, reach < INFINITY, spoils=spoils)


def steep(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """`acos((trace(a @ b) - 1) / 2)`, the angle between rotations, and `sqrt(1 - cosine ** 2)`:
    the last digits of the product are all that it depends on.
    """
    if not isinstance(node, ast.Call):
        return
    found = spelled(asked.inference, node, scope)
    if found is None:
        return
    if Trait.STEEP in found.op.traits:
        for one in operands(found, node):
            for product, home in behind(asked, one, scope):
                factors = product_factors(asked, product, home)
                yield from _spoiled(asked, node, product, factors, home)
    elif Trait.SQRT in found.op.traits:
        inner = operands(found, node)[:1]
        cosines = (
            c for one in inner for c in _cosines(asked, one, scope, _DEEP)
        )
        for one, where in cosines:
            for product, home in behind(asked, one, where):
                factors = product_factors(asked, product, home)
                factors = factors or _given(asked, product, home)
                yield from _spoiled(asked, node, product, factors, home)


_DEEP = 4


def _spoiled(
    asked: Asked,
    node: ast.Call,
    product: ast.expr,
    factors: list[ast.expr],
    home: Scope,
) -> Iterator[Hazard]:
    cast = [side for side in factors if asked.needs_cast(side, home)]
    message = (
        f"`{ast.unparse(product)}` needs more digits for `{ast.unparse(node.func)}` "
        "than half precision has: compute it with autocast switched off"
    )
    if factors:
        yield Hazard(_RULE, product, tuple(cast), message)


def _given(asked: Asked, product: ast.expr, home: Scope) -> list[ast.expr]:
    """The sides of `F.linear(x, weight)`; of a side that is normalized there, what is: with
    autocast off that would be done in half.
    """
    if not isinstance(product, ast.Call):
        return []
    found = spelled(asked.inference, product, home)
    if found is None or found.op.name != "nn.functional.linear":
        return []
    return [_normalized(asked, side, home) for side in operands(found, product)]


def _normalized(asked: Asked, side: ast.expr, home: Scope) -> ast.expr:
    if isinstance(side, ast.Call):
        found = spelled(asked.inference, side, home)
        if found is not None and found.op.name == "nn.functional.normalize":
            return operands(found, side)[0]
    return side


def _cosines(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[tuple[ast.expr, Scope]]:
    """`c` of `1 - c ** 2`, also where a bound keeps that above 0."""
    if deep == 0:
        return
    if isinstance(expr, ast.Name):
        for value, home in values_of(asked, expr):
            yield from _cosines(asked, value, home, deep - 1)
    elif isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Sub):
        if number(expr.left, scope) == 1:
            yield from _squared(asked, expr.right, scope)
    elif isinstance(expr, ast.Call):
        found = spelled(asked.inference, expr, scope)
        if found is not None and found.op.name in ("clamp", "clamp_min"):
            for one in operands(found, expr)[:1]:
                yield from _cosines(asked, one, scope, deep - 1)


def _squared(
    asked: Asked, expr: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """`c` of `c ** 2`, `c * c`, `torch.pow(c, 2)`."""
    if isinstance(expr, ast.BinOp):
        same = ast.dump(expr.left) == ast.dump(expr.right)
        is_power = isinstance(expr.op, ast.Pow)
        is_square = is_power and number(expr.right, scope) == 2
        if is_square or isinstance(expr.op, ast.Mult) and same:
            yield expr.left, scope
    elif isinstance(expr, ast.Call):
        found = spelled(asked.inference, expr, scope)
        if found is not None and found.op.name in SQUARES:
            yield from ((one, scope) for one in operands(found, expr)[:1])


def casts(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """`anchors.to(features)`, `grid.type_as(flow)`, `torch.arange(n, dtype=x.dtype)`."""
    yield from _in_half(asked, call, found, scope, _limit(asked))
    if found.op.name == "nn.functional.grid_sample":
        for grid in sampled_at(found, call):
            for one, home in made_of(asked, grid, scope):
                inner = (
                    spelled(asked.inference, one, home)
                    if isinstance(one, ast.Call)
                    else None
                )
                if inner is not None and isinstance(one, ast.Call):
                    yield from _in_half(asked, one, inner, home, 0.0)


def _in_half(
    asked: Asked,
    call: ast.Call,
    found: Spelling,
    scope: Scope,
    limit: float,
) -> Iterator[Hazard]:
    """Where positions beyond a limit take over the dtype of an activation."""
    for taken in _dtypes_of(found, call):
        if not asked.fact(taken, scope).seen_half:
            continue
        if extent(asked, call, scope) > limit:
            message = (
                f"`{ast.unparse(call)}` turns positions into half, which does not tell them "
                "apart"
            )
            yield Hazard(_RULE, call, (taken,), message)


def _dtypes_of(found: Spelling, call: ast.Call) -> Iterator[ast.expr]:
    """The tensors whose dtype a call gives to what it makes."""
    op = found.op
    named = [
        one.value for one in call.keywords if one.arg in ("dtype", "other")
    ]
    given = [*named]
    if op.result == "cast":
        given += operands_and_others(found, call)[1:]
    elif op.result not in ("default", "data"):
        return
    for one in given:
        if isinstance(one, ast.Attribute) and one.attr == "dtype":
            yield one.value
        elif op.result == "cast":
            yield one
