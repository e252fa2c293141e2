"""Steps that a planned loop shares with a backward that is left alone: `scaler.step` would divide
gradients that nothing multiplied, or find none that were scaled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.queries import holds
from amp_migrate.planner.groups import Group
from amp_migrate.planner.half_safety.reach import reachable
from amp_migrate.planner.loop import Loop, Stepper
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.steps.step_calls import StepCall


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
            apart = _is_cleared(program, stepper, group)
            if nodes.intersection(group.backwards) and not apart:
                return _refusal(loop, group)
    return None


def _is_cleared(program: Program, stepper: Stepper, group: Group) -> bool:
    """Whether the optimizers are cleared between all that runs the other backward and the first
    backward of the steps, in one block with these: `opt.zero_grad(); loss.backward(); opt.step()`.
    """
    return all(
        _is_cleared_for(program, stepper, step, group) for step in stepper.steps
    )


def _is_cleared_for(
    program: Program, stepper: Stepper, step: StepCall, group: Group
) -> bool:
    block = program.module.block_of(program.module.statement_of(step.call))
    cleared = [i for i, one in enumerate(block) if _clears(one, step.optimizer)]
    last = next(i for i, one in enumerate(block) if _holds(one, step.call))
    first = max((i for i in cleared if i < last), default=None)
    if first is None or step.inner is not None:
        return False
    between, scope = block[first : last + 1], stepper.scope
    reached = {node for node, _ in reachable(program, between, scope)}
    others = [b for b in stepper.backwards if b not in reached]
    leads = [
        {node for node, _ in reachable(program, [_around(program, b)], scope)}
        for b in others
    ]
    return not reached.intersection(group.backwards) and all(
        one.intersection(group.backwards) for one in leads
    )


def _around(program: Program, call: ast.Call) -> ast.stmt:
    return ast.copy_location(ast.Expr(call), call)


def _clears(statement: ast.stmt, optimizer: ast.expr) -> bool:
    """`optimizer.zero_grad()`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "zero_grad"
        and ast.dump(call.func.value) == ast.dump(optimizer)
    )


def _holds(statement: ast.stmt, call: ast.Call) -> bool:
    return holds(statement, lambda node: node is call)


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
