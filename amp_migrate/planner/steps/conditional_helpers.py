"""Helpers that step only sometimes: what runs before each call of them may not unscale."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.conditions.presence import asks_for_it
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.steps.step_calls import StepCall


def refuse_conditional_helper(
    program: Program, made: StepCall, reader: ast.stmt
) -> None:
    """Raise Refusal where gradients are read before each call of a helper, and the helper steps
    only under a condition, as in `if iteration % accumulate == 0: self.optimizer.step()`.
    """
    for test in _conditions(program, made):
        raise Refusal(
            "gradients-read-twice",
            reader,
            f"gradients are read (or clipped) here on every micro-batch, but `{_called(made)}` "
            f"steps only where `{ast.unparse(test)}`: unscale_ may run once per step",
        )


def _called(made: StepCall) -> str:
    return dotted_name(made.call.func) or ast.unparse(made.call.func)


def _conditions(program: Program, made: StepCall) -> Iterator[ast.expr]:
    """Those in the helpers around the step; not whether there is such an optimizer."""
    here = made
    while here.inner is not None:
        here = here.inner
        stepped = dotted_name(here.optimizer)
        for parent in program.module.ancestors(here.call):
            if isinstance(parent, ast.If) and not asks_for_it(
                parent.test, stepped
            ):
                yield parent.test
