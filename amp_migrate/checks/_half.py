"""What several rules ask about values in half precision."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from amp_migrate.checks._finding import Fix
from amp_migrate.model.autocast.first_rounds import half_at_first
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.rewrite.edits import ReplaceExpression, Template


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
) -> Fix:
    """`.float()` on each operand."""
    spans = [program.module.span(one) for one in operands]
    edits = tuple(
        ReplaceExpression(span, Template("$0.float()", (span,)))
        for span in spans
    )
    return Fix("safe" if safe else "unsafe", message, edits)
