"""Steps that a planned loop shares with a backward that is left alone: `scaler.step` would divide
gradients that nothing multiplied, or find none that were scaled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from amp_migrate.model.program import Program
from amp_migrate.planner.groups import Group
from amp_migrate.planner.half_safety.reach import reachable
from amp_migrate.planner.loop import Loop
from amp_migrate.planner.refusal import Refusal


def shared_step(
    program: Program, loop: Loop, left: Iterable[Group]
) -> Refusal | None:
    """Why the steps of `loop` cannot go through a scaler, where the scopes that step also run a
    backward that is left alone and has no step of its own.
    """
    others = [g for g in left if g.scope is not loop.scope and not g.steps]
    for stepper in loop.steppers if others else ():
        statements = list(loop.statements(stepper))
        nodes = {
            node for node, _ in reachable(program, statements, stepper.scope)
        }
        for group in others:
            if nodes.intersection(group.backwards):
                return _refusal(loop, group)
    return None


def _refusal(loop: Loop, group: Group) -> Refusal:
    backward: ast.Call = group.backwards[0]
    place = f"{Path(group.scope.module.path).name}:{backward.lineno}"
    return Refusal(
        "mixed-gradients",
        loop.backwards[0],
        f"the step also takes the gradients of `{ast.unparse(backward)}` in "
        f"`{group.scope.qualname}` ({place}), which is left alone, so that they would not be "
        "scaled",
    )
