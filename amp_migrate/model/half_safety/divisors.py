"""Products of exponentials that divide: in Sinkhorn's `1 / (kernel @ v)` the kernel is
`exp(-cost)`, whose values reach far below what float16 holds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.divided_sums import division
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.half_safety.products import behind
from amp_migrate.model.half_safety.second_moments import factors as multiplied
from amp_migrate.model.half_safety.second_moments import kept_apart, origins
from amp_migrate.model.syntax.module import Scope, returned
from amp_migrate.model.tensors.spelling import operands, spelled

_DEEP = 6


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The product that something is divided by, if one of its factors is an exponential."""
    if not asked.float16 or not isinstance(node, (ast.expr, ast.AugAssign)):
        return
    found = division(asked, node, scope)
    if found is not None:
        what = f"`{ast.unparse(found[1])}` divides, and is made of exponentials"
        for product, home in _exponential(asked, found[1], scope):
            given = factors(asked, product, home)
            yield from kept_apart(asked, product, given, home, what)
    if isinstance(node, ast.expr):
        yield from _multiplied_on(asked, node, scope)


def _multiplied_on(
    asked: Asked, node: ast.expr, scope: Scope
) -> Iterator[Hazard]:
    """A product with what was divided so."""
    sides = multiplied(asked, node, scope)
    for side in sides:
        if _is_quotient(asked, side, scope, _DEEP):
            what = f"`{ast.unparse(side)}` is divided by exponentials, which may be next to nothing"
            yield from kept_apart(asked, node, sides, scope, what)
            return


def _exponential(
    asked: Asked, divisor: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """The products behind a divisor of which a factor is an exponential."""
    for product, home in behind(asked, divisor, scope):
        given = factors(asked, product, home)
        if any(_is_exponential(asked, one, home) for one in given):
            yield product, home


def _is_quotient(asked: Asked, expr: ast.expr, scope: Scope, deep: int) -> bool:
    """Whether a value, or a factor of it, is divided by such a product."""
    if not deep:
        return False
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Mult):
        sides = ((expr.left, scope), (expr.right, scope))
        return any(_is_quotient(asked, *one, deep - 1) for one in sides)
    if isinstance(expr, ast.Name):
        return any(
            _is_quotient(asked, *one, deep - 1)
            for one in values_of(asked, expr)
        )
    found = division(asked, expr, scope)
    return found is not None and any(
        True for _ in _exponential(asked, found[1], scope)
    )


def factors(asked: Asked, product: ast.expr, scope: Scope) -> list[ast.expr]:
    """What a product multiplies."""
    if isinstance(product, ast.BinOp):
        return [product.left, product.right]
    if not isinstance(product, ast.Call):
        return []
    found = spelled(asked.inference, product, scope)
    return operands(found, product) if found is not None else []


def _is_exponential(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether a value is an exponential, perhaps with something added, here or in a helper."""
    if deep == 0:
        return False
    for one, home in origins(asked, expr, scope, _DEEP):
        if any(
            _is_exponential(asked, inner, where, deep - 1)
            for inner, where in _inside(asked, one, home)
        ):
            return True
        if isinstance(one, ast.Call):
            found = spelled(asked.inference, one, home)
            if found is not None and found.op.name == "exp":
                return True
    return False


def _inside(
    asked: Asked, expr: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    """The terms of a sum, and what a function in sight gives back."""
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Add):
        return [(expr.left, scope), (expr.right, scope)]
    if not isinstance(expr, ast.Call):
        return []
    program = asked.inference.program
    return [
        (one, program.scope(function))
        for function in program.values.callees(expr, scope)
        for one in returned(function)
    ]
