"""Steps whose errors are caught, after which training goes on. What raises between `unscale_` and
`update`, as memory that runs out in an optimizer's first step does, leaves the scaler in between:
every later turn of the loop raises that `unscale_` was called already.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.dataflow.run_ends import ends_run
from amp_migrate.model.syntax.module import LOOPS, Module
from amp_migrate.outcome import Note
from amp_migrate.planner.loop import Loop

_LEAVES = (ast.Raise, ast.Return, ast.Break)


def caught_steps(loop: Loop) -> Iterator[tuple[Module, Note]]:
    """A note for each `try` in a loop that holds a step and goes on where it raises."""
    for stepper in loop.steppers:
        module = stepper.scope.module
        guards = {
            guard: None
            for step in stepper.steps
            for guard in _guards(module, step.call)
        }
        for guard in guards:
            message = (
                "what raises in this `try` is caught, and training goes on: between `unscale_` "
                "or `step` and `update` it leaves the scaler unable to step again. Let such an "
                "error end the run, or make the scaler anew there"
            )
            yield module, Note(guard.lineno, guard.col_offset + 1, message)


def _guards(module: Module, step: ast.AST) -> Iterator[ast.Try]:
    inner = step
    for parent in module.ancestors(step):
        if isinstance(parent, LOOPS):
            return
        if isinstance(parent, ast.Try) and inner in parent.body:
            if any(_goes_on(module, one) for one in parent.handlers):
                yield parent
        inner = parent


def _goes_on(module: Module, handler: ast.ExceptHandler) -> bool:
    """Whether the end of a handler is reached, for all that is in sight."""
    last = handler.body[-1]
    asked = last.value if isinstance(last, ast.Expr) else last
    return not isinstance(last, _LEAVES) and not ends_run(module, asked)
