"""An operation without a half-precision kernel gets a half-precision value."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._half import half_arguments, to_float
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops import Kernels, Op, Trait

RULE = Rule("ops-without-half-kernel", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Calls with operands that are half for certain, and the two that multiply matrices inside."""

    def wanted(call: ast.Call, scope: Scope) -> Sequence[ast.expr]:
        found = spelled(program.precision.inference, call, scope)
        return (
            operands(found, call)
            if found is not None and _lacks(found.op)
            else []
        )

    for call, _, half in half_arguments(program, wanted):
        message = (
            f"half precision has no kernel for `{_name(program, call)}`, so this raises "
            "under autocast: write `.float()`"
        )
        fix = to_float(
            program,
            half,
            safe=True,
            message="convert to float32, which does nothing without autocast",
        )
        yield finding_at(program, call, RULE, message, fix=fix)
    for call, _ in program.uses.calls(*_BREAKING):
        if program.regions.enabled_around(call) is not None:
            name = program.canonical(call.func)
            message = (
                f"`{name}` multiplies matrices inside, in half precision, and raises: "
                "compute it with autocast off"
            )
            yield finding_at(program, call, RULE, message)


# Their inner products are half even of float32 operands; sparse ones are not tried on a GPU.
_BREAKING = tuple(
    name
    for row in ops.ROWS
    if row.always_breaks and "sparse" not in row.name
    for name in row.functions
)


def _lacks(op: Op) -> bool:
    """Transforms and complex numbers are another rule's."""
    is_complex = op.result == "complex" and op not in ops.linalg.ROWS
    is_other = (
        is_complex
        or op.traits & (Trait.FOURIER | Trait.COMPLEX)
        or op.always_breaks
    )
    return (
        op.policy == "keeps" and Kernels.HALF not in op.kernels and not is_other
    )


def _name(program: Program, call: ast.Call) -> str:
    name = program.canonical(call.func)
    return name or (
        f"Tensor.{call.func.attr}"
        if isinstance(call.func, ast.Attribute)
        else "this"
    )
