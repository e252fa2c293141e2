"""What several rules ask about values in half precision."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from amp_migrate.checks._finding import Fix, Safety
from amp_migrate.model.autocast.first_rounds import half_at_first
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.rewrite.edits import Edit, ReplaceExpression, Template
from amp_migrate.rewrite.proof.demands import demands_of
from amp_migrate.rewrite.proof.module_outputs import is_output, takes_no_several
from amp_migrate.rewrite.proof.receivers import receivers_of

_DEEP = 16
_MAY_BE = DType.HALF | DType.FLOAT | DType.UNKNOWN
_CHANGED = DType.DOUBLE | DType.COMPLEX
_OF_TENSORS = (ast.MatMult, ast.Sub, ast.Div)


def half_arguments(
    program: Program, operands: Callable[[ast.Call, Scope], Sequence[ast.expr]]
) -> Iterator[tuple[ast.Call, Scope, list[ast.expr]]]:
    """Calls of which `operands` names some that are half precision for certain, with those; also
    where that is so in the first round of a loop alone.
    """
    if not program.regions.regions:
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            half = [
                one
                for one in operands(call, scope)
                if half_at_first(program, one, scope)
            ]
            if half:
                yield call, scope, half


def may_be_float16(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether `expr` is float16, or half precision in a region that float16 may be chosen for."""
    half = program.precision.half(expr, scope)
    if half != "half":
        return half == "float16"
    region = program.regions.enabled_around(expr)
    return region is not None and "float16" in region.choices


def to_float(
    program: Program, operands: Sequence[ast.expr], safe: bool, message: str
) -> Fix | None:
    """`.float()` on each operand, where each is proved to have it."""
    edits = float_casts(program, operands)
    safety: Safety = "safe" if safe else "unsafe"
    return Fix(safety, message, edits) if edits else None


def float_casts(
    program: Program, operands: Sequence[ast.expr]
) -> tuple[Edit, ...]:
    """`.float()` on each operand; none at all where one may be a list, a dict, or no float32: a
    cast runs with AMP off as well, and no rule may write one by another way.
    """
    if not all(is_one_tensor(program, one) for one in operands):
        return ()
    spans = [program.module.span(one) for one in operands]
    return tuple(
        ReplaceExpression(span, Template("$0.float()", (span,)))
        for span in spans
    )


def is_one_tensor(program: Program, expr: ast.expr) -> bool:
    """Whether a value is proved to be one tensor that `.float()` leaves as it is with AMP off: by
    its dtypes, or by what the proof of additions asks.
    """
    scope = program.module.scope_of(expr)
    known = program.precision.of(expr, scope)
    if known.dtypes & _CHANGED or known.dtypes == DType.INTEGER:
        return False
    if demands_of(program).demanded(expr, scope):
        return True
    if known.container or known.dtypes & ~_MAY_BE:
        return False
    if known.dtypes and not known.dtypes & DType.UNKNOWN:
        return True
    if receivers_of(program).made(expr, scope, _DEEP):
        return True
    is_single = takes_no_several(program, expr) or _is_subtracted(program, expr)
    return is_single and is_output(program, expr, scope)


def _is_subtracted(program: Program, expr: ast.expr) -> bool:
    """`x @ y`, `x - y`, `x / y`, which no list, tuple or dict takes part in."""
    above = program.module.parents.get(expr)
    return isinstance(above, ast.BinOp) and isinstance(above.op, _OF_TENSORS)
