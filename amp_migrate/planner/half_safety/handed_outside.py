"""Values that leave a region in half precision and are handed to a function of another file, which
writes them into float32, or multiplies them with it: they leave as float.
"""

from __future__ import annotations

import ast

from amp_migrate.model.half_safety.all_hazards import hazards as find_hazards
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.planner.half_safety.float_operands import meets_float
from amp_migrate.planner.half_safety.handed_facts import (
    Facts,
    given_facts,
    run_abroad,
)
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.reach import reachable


def cast_handed(
    program: Program, call: ast.Call, scope: Scope, hazards: Hazards
) -> None:
    """Cast the arguments of a call outside of autocast that do not fit where they arrive in
    half.
    """
    given = [*call.args, *(one.value for one in call.keywords)]
    half = [one for one in given if _is_half(hazards, one, scope)]
    if not half:
        return
    for home, inner in run_abroad(program, call, scope, program):
        facts = dict(given_facts(hazards.asked, call, scope, inner))
        if home is not program and _breaks(home, inner, facts, hazards):
            for one in half:
                hazards.cast(one)
            return


def _is_half(hazards: Hazards, expr: ast.expr, scope: Scope) -> bool:
    fact = hazards.asked.fact(expr, scope)
    return fact.seen_half and hazards.asked.needs_cast(expr, scope)


def _breaks(
    home: Program, inner: Scope, facts: Facts, hazards: Hazards
) -> bool:
    """Whether a function that is called outside of autocast cannot take what it is given."""
    assert isinstance(inner.node, FUNCTIONS)
    there = Hazards(home, float16=hazards.float16, given=facts)
    nodes = list(reachable(home, inner.node.body, inner))
    if any(
        one.certain and any(map(there.is_seen_half, one.casts))
        for one in find_hazards(there.asked, nodes)
    ):
        return True
    return any(
        there.is_seen_half(expr)
        for node, scope in nodes
        for expr in meets_float(home, node, scope, there)
    )
