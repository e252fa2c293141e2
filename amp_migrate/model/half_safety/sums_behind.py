"""What is behind a sum, a product or a quotient that a logarithm, root or division gets."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.half_safety.lost_guards import SMALLEST, lost_term
from amp_migrate.model.half_safety.trail import Place, Trail, joined
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts.ops import Trait

if TYPE_CHECKING:
    from amp_migrate.model.half_safety.weak_places import Search

_FAR = 0.1
"""Where that much is added to what is never negative, nothing is near 0. To what a root is taken
of, whatever half precision can hold is enough: the gradient is finite."""


def behind_operation(
    search: Search,
    node: ast.expr,
    symbol: ast.operator,
    operands: tuple[ast.expr, ast.expr],
    place: Place,
) -> Trail:
    """What is behind an operation of two values, written with its symbol or as a call: `a + b`,
    `a.add(b)`.
    """
    if isinstance(symbol, ast.MatMult):
        return search.product(node, place)
    step = place.at(place.scope)
    first, second = operands
    if isinstance(symbol, ast.Pow):
        return search.behind(first, step)
    is_plain = isinstance(symbol, (ast.Add, ast.Sub, ast.Mult))
    if not is_plain and not search.whole and search.trait is not Trait.LOG:
        return Trail()
    left = number(first, place.scope)
    if isinstance(symbol, ast.Sub) and left is not None:
        return _shifted(search, second, step._replace(complemented=True), left)
    sides = ((first, second), (second, first))
    is_sum = isinstance(symbol, (ast.Add, ast.Sub))
    return joined(
        [
            _side(search, symbol, value, other if is_sum else None, step)
            for value, other in sides
            if number(value, place.scope) is None
        ]
    )


def _side(
    search: Search,
    op: ast.operator,
    value: ast.expr,
    other: ast.expr | None,
    place: Place,
) -> Trail:
    """One operand, with what is added to it."""
    added = number(other, place.scope) if other is not None else None
    met = len(search.names.parameters)
    found = _shifted(search, value, place, added or 0.0)
    if other is None or search.whole:
        return found
    least = SMALLEST if search.trait is Trait.SQRT else _FAR
    is_guarded = isinstance(op, ast.Add) and (added or 0.0) >= least
    if is_guarded and not place.complemented:
        del search.names.parameters[met:]  # nothing is asked of what they hold
        return Trail(origin=found.origin)
    if found.weak:
        return found
    return Trail(lost_term(search.asked, value, other, place.scope))


def _shifted(
    search: Search, value: ast.expr, place: Place, added: float
) -> Trail:
    """What is behind a value to which a number is added."""
    before = set(search.products)
    found = search.behind(value, place)
    if abs(added) >= _FAR:
        search.shifted |= search.products.keys() - before
    return found
