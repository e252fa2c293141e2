"""Statements that are computed with autocast off, and what they compute with."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TYPE_CHECKING

from amp_migrate.model.half_safety.hazard import Hazard
from amp_migrate.model.tensors.fact import DType
from amp_migrate.planner.half_safety.islands import (
    is_island,
    is_lowered,
    operands_of_products,
    raised_operands,
)
from amp_migrate.planner.refusal import Refusal

if TYPE_CHECKING:
    from amp_migrate.planner.half_safety.hazards import Hazards


def set_apart(hazards: Hazards, found: dict[ast.stmt, list[Hazard]]) -> None:
    """Statements are computed with autocast off; those of float32 casts alone need no more."""
    in_order = sorted(found, key=lambda one: one.lineno)
    unseen = _unseen(hazards, found)
    left = [one for one in in_order if _leaves(hazards, one, found[one])]
    for statement in left:
        hazards.asked.inference.left(statement)
    for statement in in_order:  # what one gives, others get
        _raise(hazards, statement, found[statement], statement in left, unseen)


def _unseen(
    hazards: Hazards, found: dict[ast.stmt, list[Hazard]]
) -> set[ast.expr]:
    """What nobody follows, and the region may have made half: outside of it, it would count as
    float32.
    """
    home = hazards.program.module.scope_of
    wanted = (
        expr for some in found.values() for one in some for expr in one.casts
    )
    facts = ((expr, hazards.asked.fact(expr, home(expr))) for expr in wanted)
    return {
        expr
        for expr, fact in facts
        if fact.may_be_half and DType.UNKNOWN in fact.dtypes
    }


def _leaves(hazards: Hazards, statement: ast.stmt, found: list[Hazard]) -> bool:
    """Whether a statement runs with autocast off from now on."""
    nodes = {
        one.node: hazards.program.module.scope_of(one.node) for one in found
    }
    lowered = {
        one: where
        for one, where in nodes.items()
        if is_lowered(hazards.asked, one, where)
    }
    spoils = next((one for one in found if one.spoils), None)
    possible = is_island(hazards.asked, statement, lowered) or (
        spoils is not None
        and is_island(hazards.asked, statement, lowered, products_may=True)
    )
    if lowered and not possible and spoils is not None:
        raise Refusal(spoils.rule, spoils.node, spoils.message)
    if not lowered:
        return False
    if not possible:
        found.clear()  # nothing mends it
        return False
    hazards.inside.leave(statement)
    hazards.islands[statement] = next(
        one.rule for one in found if one.node in lowered
    )
    return True


def _raise(
    hazards: Hazards,
    statement: ast.stmt,
    found: list[Hazard],
    is_left: bool,
    unseen: Collection[ast.expr],
) -> None:
    """What a statement computes with becomes float32."""
    home = hazards.program.module.scope_of
    products = (
        operands_of_products(
            hazards.asked, statement, [one.node for one in found]
        )
        if is_left
        else []
    )
    for expr in reversed(products):
        if hazards.asked.needs_cast(expr, home(expr)):
            hazards.cast(expr, "loses-precision")
    for expr, rule in ((expr, one.rule) for one in found for expr in one.casts):
        if expr in unseen or hazards.asked.needs_cast(expr, home(expr)):
            hazards.cast(expr, rule)
    raised = raised_operands(hazards.asked, statement) if is_left else []
    for expr in reversed(raised):  # what is within, before what it gives
        if hazards.asked.needs_cast(expr, home(expr)):
            hazards.cast(expr, "loses-precision")
