"""Arrays that are made of half tensors where autocast is on: NumPy has no autocast, and computes
boxes, sums and means in half that torch would compute in float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import FLOATING
from amp_migrate.planner.half_safety.exposed_values import Consumers
from amp_migrate.rewrite.proof.demands import demands_of
from amp_migrate.rewrite.proof.receivers import receivers_of

_CONVERTERS = (
    "numpy.array",
    "numpy.asarray",
    "numpy.asanyarray",
    "numpy.ascontiguousarray",
)
_DEEP = 12


def made_array(program: Program, call: ast.Call) -> ast.expr | None:
    """What a call makes an array of."""
    if program.canonical(call.func) in _CONVERTERS:
        return call.args[0] if call.args else None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy":
        return call.func.value
    return None


def array_of_half(
    asked: Asked, call: ast.Call, scope: Scope
) -> Iterator[ast.expr]:
    """The tensor that an array is made of, where that is half and the array may mind."""
    program = asked.inference.program
    tensor = made_array(program, call)
    fact = asked.fact(tensor, scope) if tensor is not None else None
    if tensor is None or fact is None or not fact.seen_half:
        return
    if fact.dtypes & ~FLOATING:
        return  # `.float()` would change the integers that other callers give
    if not Consumers(asked).expose(tensor, scope):
        return
    is_tensor = receivers_of(program).made(tensor, scope, _DEEP)
    if is_tensor or demands_of(program).demanded(tensor, scope):
        yield tensor
