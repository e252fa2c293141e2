"""Gradients that backward is given: `loss.backward(one)`. Backward is linear in them and in the
scale, so a loss that is one number is scaled as any other; a vector of losses may be half, and
overflows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.scalars import is_scalar
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.statement_runs import receivers


def refuse_vector(program: Program, call: ast.Call, scope: Scope) -> None:
    """Raise Refusal where backward gets a gradient for what may be a vector."""
    if not any(_is_given(one) for one in _gradients(program, call)):
        return
    for loss in receivers(call, program) or [call]:
        if not is_scalar(program, loss, scope):
            raise Refusal(
                "unsupported-shape",
                call,
                f"backward gets a gradient of its own, and nothing shows that "
                f"`{ast.unparse(loss)}` is one number: a vector of losses overflows when it is "
                "scaled in half",
            )


def _gradients(program: Program, call: ast.Call) -> Iterator[ast.expr]:
    apart = program.canonical(call.func) == "torch.autograd.backward"
    place, name = (1, "grad_tensors") if apart else (0, "gradient")
    yield from call.args[place : place + 1]
    yield from (k.value for k in call.keywords if k.arg == name)


def _is_given(gradient: ast.expr) -> bool:
    return not (isinstance(gradient, ast.Constant) and gradient.value is None)
