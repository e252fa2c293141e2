"""Logarithms, roots and divisions whose guard half precision takes away.

In half, a sigmoid is exactly 0 or 1 where float32 is not, `1 - 1e-4` is 1, and `1e-8` is 0. So the
value that a logarithm or a division gets is followed back to where it was saturated or guarded,
through assignments, helpers and models in sight; the cast stands there, before the damage.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.trail import Demand, WeakPlace
from amp_migrate.model.half_safety.weak_places import Search
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.tensors.spelling import given_to, operands, spelled
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts.ops import Spelling, Trait
from amp_migrate.torch_facts.ops.roles import FROM_ONE


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The logarithms, roots and divisions at `node`."""
    for operand, demand in singular(asked, node, scope):
        search = Search(asked, demand.trait)
        for weak in search.under(demand, operand, scope):
            yield _hazard(weak, node)
    if isinstance(node, ast.Call):
        # What is kept below 1 is taken from 1 somewhere, wherever that may be.
        yield from (
            _hazard(w, node)
            for w in Search(asked, Trait.LOG).kept_below_one(node, scope)
        )


def demanded(
    asked: Asked, node: ast.AST, scope: Scope
) -> Iterator[tuple[Binding, Demand]]:
    """The parameters behind what a logarithm, root or division at `node` gets."""
    for operand, demand in singular(asked, node, scope):
        search = Search(asked, demand.trait)
        search.under(demand, operand, scope)
        yield from search.parameters


def saturated(
    asked: Asked,
    call: ast.Call,
    given: ast.expr,
    scope: Scope,
    demand: Demand,
) -> Iterator[Hazard]:
    """What half precision saturates behind an argument of which `demand` is made elsewhere."""
    for weak in Search(asked, demand.trait).under(demand, given, scope):
        if weak.saturates:
            yield _hazard(weak, call)


def parameters_behind(
    asked: Asked, expr: ast.expr, scope: Scope, demand: Demand
) -> list[tuple[Binding, Demand]]:
    """The parameters behind an argument of which `demand` is made elsewhere."""
    search = Search(asked, demand.trait)
    search.under(demand, expr, scope)
    return search.parameters


def _hazard(weak: WeakPlace, node: ast.AST) -> Hazard:
    casts = () if weak.cast is None else (weak.cast,)
    return Hazard(
        "eps-underflow",
        node,
        casts,
        weak.what,
        split=weak.split,
        files=(weak.file,) if weak.file else (),
    )


def singular(
    asked: Asked, node: ast.AST, scope: Scope
) -> Iterator[tuple[ast.expr, Demand]]:
    """Operands that must not be zero, or not one, with what is done to them."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield node.right, Demand(Trait.DIVIDES, False, ())
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        yield node.value, Demand(Trait.DIVIDES, False, ())
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        yield from _of_power(node.left, node.right, scope)
    elif isinstance(node, ast.Call):
        found = spelled(asked.inference, node, scope)
        if found is not None:
            yield from _of_call(found, node, scope)


def _of_power(
    base: ast.expr, exponent: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Demand]]:
    """`x ** -1`, which divides, and `x ** 0.5` and `x ** (1 / self.p)`, which are roots."""
    power = number(exponent, scope)
    if power is None and isinstance(exponent, ast.BinOp):
        is_part = isinstance(exponent.op, ast.Div)
        power = 0.5 if is_part and number(exponent.left, scope) == 1 else None
    if power is not None and power < 1 and power != 0:
        trait = Trait.DIVIDES if power < 0 else Trait.SQRT
        yield base, Demand(trait, False, ())


def _of_call(
    found: Spelling, call: ast.Call, scope: Scope
) -> Iterator[tuple[ast.expr, Demand]]:
    given = operands(found, call)
    if found.op.name == "pow" and len(all_given := given_to(found, call)) > 1:
        yield from _of_power(all_given[0], all_given[1], scope)
    if Trait.TURNS in found.op.traits:
        yield from ((one, Demand(Trait.DIVIDES, False, ())) for one in given)
    for trait in (Trait.LOG, Trait.DIVIDES, Trait.SQRT):
        if trait in found.op.traits and given:
            yield given[-1], Demand(trait, found.op.name in FROM_ONE, ())
            return
