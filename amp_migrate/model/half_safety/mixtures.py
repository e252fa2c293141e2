"""Logarithms of products of matrices, which are computed with autocast off.

Of mixed probabilities, `log(alpha @ transitions)`, what is below float16's smallest number is 0; of
`log(1 + w @ u)` a small difference of large numbers is left.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.singular import singular
from amp_migrate.model.half_safety.weak_places import Search
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.torch_facts.ops import Trait


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """Products of what is never negative, of which a logarithm is taken at `node`."""
    for operand, demand in singular(asked, node, scope):
        if demand.trait is not Trait.LOG:
            continue
        search = Search(asked, Trait.LOG)
        search.under(demand, operand, scope)
        for product, home in search.products.items():
            if is_double(asked, factors(asked, product, home), home):
                continue
            is_near = product in search.shifted or mixes(asked, product, home)
            if is_near and asked.inference.inside(product):
                yield _hazard(asked, product, home)


def _hazard(asked: Asked, product: ast.expr, scope: Scope) -> Hazard:
    """The product as a hazard, with the casts that mend it."""
    sides = factors(asked, product, scope)
    casts = tuple(one for one in sides if asked.needs_cast(one, scope))
    message = (
        f"a logarithm is taken of `{ast.unparse(product)}`, whose small values are 0 in half "
        "precision"
    )
    return Hazard("loses-precision", product, casts, message, spoils=True)


def mixes(asked: Asked, product: ast.expr, scope: Scope) -> bool:
    """Whether one side of a product is never negative, as nothing is whose logarithm is taken."""
    facts = [asked.fact(one, scope) for one in factors(asked, product, scope)]
    bounds = (one.bounds for one in facts)
    return any(one is not None and one[0] >= 0 for one in bounds)


def is_double(asked: Asked, given: list[ast.expr], scope: Scope) -> bool:
    """Whether everything is float64, which autocast leaves alone."""
    return all(asked.fact(one, scope).dtypes == DType.DOUBLE for one in given)


def factors(asked: Asked, node: ast.expr, scope: Scope) -> list[ast.expr]:
    """What a product multiplies."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    assert isinstance(node, ast.Call)
    found = spelled(asked.inference, node, scope)
    return operands(found, node) if found is not None else []
