"""A bfloat16 tensor is converted to NumPy, which has no such type."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._half import to_float
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("bf16-to-numpy", severity="error")
_CONVERTERS = {
    "numpy.array",
    "numpy.asarray",
    "numpy.asanyarray",
    "numpy.ascontiguousarray",
}
_MOVES = {"cpu", "detach", "contiguous", "clone"}
_MESSAGE = (
    "NumPy has no bfloat16, so this raises `Got unsupported ScalarType BFloat16`: write "
    "`.float()` before it"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """`.numpy()` and `np.array` of what a bfloat16 region made."""
    if not any(
        region.dtype == "bfloat16" for region in program.regions.regions
    ):
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            tensor = _converted(program, call)
            if (
                tensor is not None
                and program.precision.half(tensor, scope) == "bfloat16"
            ):
                yield finding_at(
                    program, call, RULE, _MESSAGE, fix=_fix(program, tensor)
                )


def _converted(program: Program, call: ast.Call) -> ast.expr | None:
    if program.canonical(call.func) in _CONVERTERS:
        return call.args[0] if call.args else None
    is_method = (
        isinstance(call.func, ast.Attribute) and call.func.attr == "numpy"
    )
    return (
        call.func.value
        if is_method and isinstance(call.func, ast.Attribute)
        else None
    )


def _fix(program: Program, tensor: ast.expr) -> Fix | None:
    """The cast comes first, so that what is moved is float32 already."""
    while (
        isinstance(tensor, ast.Call)
        and isinstance(tensor.func, ast.Attribute)
        and tensor.func.attr in _MOVES
    ):
        if tensor.func.attr == "detach":
            break
        tensor = tensor.func.value
    return to_float(
        program,
        [tensor],
        safe=True,
        message="convert to float32 first, which holds every bfloat16 number",
    )
