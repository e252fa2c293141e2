"""Half-precision values are written by index into a float32 buffer, or the other way round."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.autocast.first_rounds import (
    float_at_first,
    half_at_first,
    is_float,
    is_half,
)
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.writes import is_by_tensor, written
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope, shallow
from amp_migrate.model.tensors.spelling import spelled
from amp_migrate.rewrite.edits import ReplaceExpression, Template
from amp_migrate.torch_facts.ops import EVERY, Spelling, is_indexed_write

RULE = Rule("dtype-strict-inplace", severity="error")
_MESSAGE = (
    "this raises under autocast, since a write by index converts nothing: write "
    "`.to({buffer}.dtype)`"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Indexed writes of half values into buffers made without a dtype, and of float32 values into
    those that are made like half ones.
    """
    if not program.regions.regions:
        return
    for scope in program.module.scopes.values():
        for place, buffer, value in _writes(program, scope):
            if _differ(program, value, buffer, scope) or _differ(
                program, buffer, value, scope
            ):
                text = program.module.source(buffer)
                yield finding_at(
                    program,
                    place,
                    RULE,
                    _MESSAGE.format(buffer=text),
                    fix=_fix(program, buffer, value),
                )


def _differ(
    program: Program, half: ast.expr, full: ast.expr, scope: Scope
) -> bool:
    """Whether one is half precision and the other one float32: one of them always, the other one
    in the first round of a loop, or in one call, at least.
    """
    if is_half(program, half, scope):
        return float_at_first(program, full, scope)
    return is_float(program, full, scope) and half_at_first(
        program, half, scope
    )


def _writes(
    program: Program, scope: Scope
) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr, ast.expr]]:
    """Where something is written, into what, and the values."""
    asked = Asked(program.precision.inference)
    for statement in scope.body:
        if isinstance(
            statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            continue
        for node in shallow(statement):
            if isinstance(node, ast.Assign) and isinstance(
                node.targets[0], ast.Subscript
            ):
                target = node.targets[0]
                if is_by_tensor(asked, target.slice, scope):
                    yield node, target.value, node.value
            elif isinstance(node, ast.Call):
                found = spelled(program.precision.inference, node, scope)
                if found is not None and _is_write(found):
                    pair = written(node, found)
                    if pair is not None:
                        yield node, *pair


def _is_write(found: Spelling) -> bool:
    """Whether an operator writes values that must have the type of what they are written into;
    out of place autocast brings the two together for some.
    """
    op = found.op
    if op.strict is None or op.strict == EVERY:
        return False
    return found.form == "in-place" or (
        is_indexed_write(op) and found.policy != "promote"
    )


def _fix(program: Program, buffer: ast.expr, value: ast.expr) -> Fix:
    span = program.module.span
    edit = ReplaceExpression(
        span(value), Template("$0.to($1.dtype)", (span(value), span(buffer)))
    )
    return Fix(
        "safe",
        "convert the values to the buffer's type, which does nothing without autocast",
        (edit,),
    )
