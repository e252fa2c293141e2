"""Gradients that are cleared before any optimizer steps on them: those of an attack on the batch,
made in a function that the training calls.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope
from amp_migrate.planner.step_calls import StepCall


def all_cleared(
    program: Program, scope: Scope, call: ast.Call, steps: Sequence[StepCall]
) -> bool:
    """Whether what a call of a scope leaves in `.grad` reaches none of the scope's steps."""
    return bool(steps) and all(
        _is_cleared(program, call, step) for step in steps
    )


def _is_cleared(program: Program, call: ast.Call, step: StepCall) -> bool:
    """Whether `optimizer.zero_grad()` stands between them in the block that holds both, under no
    condition: whatever way leads from the call to the step leads through it.
    """
    module = program.module
    optimizer = dotted_name(step.optimizer)
    around = {id(a) for a in module.ancestors(call)}
    here = module.statement_of(step.call)
    while optimizer is not None and here is not None:
        block = module.block_of(here)
        first = [i for i, one in enumerate(block) if id(one) in around]
        last = next(i for i, one in enumerate(block) if one is here)
        if first:
            between = block[first[0] + 1 : last]
            return any(_clears(one, optimizer) for one in between)
        up = module.statement_around(here)
        if up is None:
            return False
        here = up
    return False


def _clears(statement: ast.stmt, optimizer: str) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return (
        isinstance(func, ast.Attribute)
        and func.attr == "zero_grad"
        and dotted_name(func.value) == optimizer
    )
