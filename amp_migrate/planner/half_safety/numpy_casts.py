"""Tensors that become NumPy arrays, which have no bfloat16: they are float first, in a region,
after it, and in helpers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope, shallow
from amp_migrate.planner.half_safety.arrays_of_half import made_array
from amp_migrate.planner.half_safety.half_values import bare
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.regions.loss_flow import flow_of, header

_RULE = "bf16-to-numpy"


def array_casts(program: Program, scope: Scope, hazards: Hazards) -> None:
    """Collect `.float()` for what models give and NumPy gets; with float16 there is
    nothing to do.
    """
    for step in flow_of(scope, program).steps:
        for root in header(step.statement):
            for call in shallow(root):
                if isinstance(call, ast.Call):
                    for tensor in _handed(program, scope, call, 2):
                        if hazards.is_seen_half(tensor):
                            hazards.cast(tensor, _RULE)


def _handed(
    program: Program, scope: Scope, call: ast.Call, hops: int
) -> Iterator[ast.expr]:
    """The expressions around a call that it turns into arrays, itself or in functions in sight."""
    made = made_array(program, call)
    if made is not None:
        yield made
    function = program.values.callee(call, scope) if hops else None
    if function is not None:
        inner = program.scope(function)
        parameters = {a.arg for a in inner.parameters()}
        for nested in inner.calls:
            for tensor in _handed(program, inner, nested, hops - 1):
                name = dotted_name(bare(tensor, inner.module))
                bound = inner.takes_receiver and isinstance(
                    call.func, ast.Attribute
                )
                once = (
                    name in parameters
                    and len(inner.bindings.get(name or "", ())) == 1
                )
                given = (
                    argument(call, inner, name, bound)
                    if once and name is not None
                    else None
                )
                if given is not None:
                    yield given
