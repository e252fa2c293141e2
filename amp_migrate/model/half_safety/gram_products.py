"""Products of Gram matrices, as in HSIC and CKA: `trace((h @ x @ x.t()) @ (h @ y @ y.t()))`. Each
entry is of the fourth degree in what a network gives, and summed up over the samples.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import method_name, values_of
from amp_migrate.model.half_safety.second_moments import (
    factors,
    kept_apart,
    origins,
    transposed,
)
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.bounds import reach

_DEEP = 6
_Product = tuple[ast.expr, Scope]


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The products that two multiplied matrices come from, if each comes from a Gram matrix."""
    if not isinstance(node, ast.expr) or not asked.inference.inside(node):
        return
    sides = _multiplied(asked, node, scope)
    if not sides:
        return
    products: list[_Product] = []
    for side in sides:
        behind = list(_from_gram(asked, side, scope, _DEEP))
        if not behind:
            return
        products += behind
    if factors(asked, node, scope):
        products.append((node, scope))
    what = (
        f"`{ast.unparse(node)}` multiplies Gram matrices, whose entries are "
        "squares, and adds up as many as there are samples"
    )
    for one, home in dict.fromkeys(products):
        given = factors(asked, one, home)
        yield from kept_apart(asked, one, given, home, what)


def _multiplied(asked: Asked, node: ast.expr, scope: Scope) -> list[ast.expr]:
    """The sides of a product of matrices, or of one entry by entry."""
    found = factors(asked, node, scope)
    if len(found) == 2:
        return found
    if not isinstance(node, ast.BinOp):
        return []
    if not isinstance(node.op, ast.Mult):
        return []
    return [node.left, node.right]


def _from_gram(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[_Product]:
    """The products behind an expression that begin with a Gram matrix; none for others."""
    if not deep:
        return
    for one, home in origins(asked, expr, scope, _DEEP):
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub):
            yield from _from_gram(asked, one.left, home, deep - 1)
            continue
        given = factors(asked, one, home)
        if len(given) != 2:
            continue
        inner: list[_Product] = []
        for side in given:
            inner += _from_gram(asked, side, home, deep - 1)
        if inner or _is_gram(asked, given, home):
            yield one, home
        yield from inner


def _is_gram(asked: Asked, given: list[ast.expr], scope: Scope) -> bool:
    """`x @ x.t()` of what is not normalised."""
    left, right = given
    if ast.unparse(left) != transposed(asked, right):
        return False
    bounds = asked.fact(left, scope).bounds
    if reach(bounds) <= 1:
        return False
    made = values_of(asked, left)
    return all(method_name(one) != "normalize" for one, _ in made)
