"""Loops whose losses are computed in one function: each leaves the casts out that the region of
another makes idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_migrate.planner.groups import Group, group_of
from amp_migrate.planner.loop_edits import LoopPlan
from amp_migrate.planner.refusal import Refusal

if TYPE_CHECKING:
    from amp_migrate.planner.loop_planner import LoopPlanner


def with_callers_shared(
    planned: Sequence[LoopPlan],
    planner: LoopPlanner,
    plan_loop: Callable[[Group], LoopPlan],
) -> list[LoopPlan]:
    """The plans, where those whose regions stand in one calling function have each other's in
    sight; where one of them is refused then, it stays as it is.
    """
    found: list[LoopPlan] = []
    for one in planned:
        beside = [other for other in planned if _share(one, other)]
        if not beside:
            found.append(one)
            continue
        before, planner.beside = planner.wiring.snapshot(), beside
        try:
            first, scope = one.loop.backwards[0], one.loop.scope
            again = plan_loop(group_of(planner.program, scope, first))
            found.append(_with_casts(one, again))
        except Refusal:
            found.append(one)
        planner.wiring.restore(before)
        planner.beside = []
    return found


def _with_casts(plan: LoopPlan, again: LoopPlan) -> LoopPlan:
    """A plan with what half precision demands when all regions are in sight."""
    return replace(
        plan,
        casts=again.casts,
        functions=again.functions,
        islands=again.islands,
    )


def _share(one: LoopPlan, other: LoopPlan) -> bool:
    """Whether two loops of different functions have regions in the same one."""
    if one.loop.scope is other.loop.scope:
        return False
    scopes = {id(scope) for scope, _ in other.above}
    return any(id(scope) in scopes for scope, _ in one.above)
