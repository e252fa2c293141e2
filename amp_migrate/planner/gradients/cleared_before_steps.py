"""Gradients that are cleared before any optimizer steps on them: those of an attack on a batch, in
the loop itself or in a function that it calls.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.planner.steps.step_calls import StepCall

_ARMS = (ast.If, ast.Match)
"""Statements of which one turn runs one block."""


def all_cleared(
    program: Program, call: ast.Call, steps: Sequence[StepCall]
) -> bool:
    """Whether what a call of a scope leaves in `.grad` reaches none of the scope's steps."""
    return bool(steps) and all(
        _is_cleared(program, call, step) for step in steps
    )


def _is_cleared(program: Program, call: ast.Call, step: StepCall) -> bool:
    """Whether `optimizer.zero_grad()` stands before the step under no condition, in a block that
    the way from the call enters, or behind the call in the block that holds both.
    """
    module = program.module
    optimizer = dotted_name(step.optimizer)
    around = {id(a) for a in module.ancestors(call)}
    here = module.statement_of(step.call)
    while optimizer is not None:
        block = module.block_of(here)
        held = [i for i, one in enumerate(block) if id(one) in around]
        last = next(i for i, one in enumerate(block) if one is here)
        if last in held and not isinstance(here, _ARMS):
            return False  # a `try` goes from its body straight into its `else`
        # What stands behind the step comes back to it by the head of the block.
        first = held[0] + 1 if held and held[0] < last else 0
        if any(_clears(one, optimizer) for one in block[first:last]):
            return True
        if held:
            return False
        up = module.statement_around(here)
        if up is None:
            return False
        here = up
    return False


def _clears(statement: ast.stmt, optimizer: str) -> bool:
    """Whether a statement clears the gradients of an optimizer."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return (
        isinstance(func, ast.Attribute)
        and func.attr == "zero_grad"
        and dotted_name(func.value) == optimizer
    )
