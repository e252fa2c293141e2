"""A small constant against division by zero is itself zero in float16."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._half import may_be_float16, to_float
from amp_migrate.config import Settings
from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.half_safety.written_tensors import writer_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope, shallow
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts.amp_api import HALF_EPSILON

RULE = Rule("eps-underflow", severity="warning", default=False)
# Half of float16's smallest number is 2 ** -25; the page says 3e-8.
SMALLEST = 3e-8
# The largest below one is 1 - 2 ** -11; half of that step is 2 ** -12.
LARGEST = 1 - HALF_EPSILON
_BOUNDS = {"clamp", "clamp_", "clip", "clamp_min", "clamp_min_"}
_UPPER = {"clamp", "clamp_", "clip", "clamp_max", "clamp_max_"}
_MESSAGE = (
    "`{eps}` is {what} in float16, so it protects from nothing: cast the value with "
    "`.float()`, or use 1e-{digits}"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Summands and lower bounds of values that are float16 for certain."""
    if not program.regions.regions:
        return
    for scope in program.module.scopes.values():
        for place, constant, tensor in _uses(scope):
            if any(
                0 < one < SMALLEST for one in _numbers(program, constant, scope)
            ):
                yield from _told(
                    program, scope, place, constant, tensor, "zero"
                )
        for place, constant, tensor in _upper_bounds(scope):
            if any(
                LARGEST < one < 1 for one in _numbers(program, constant, scope)
            ):
                yield from _told(program, scope, place, constant, tensor, "one")


def _told(
    program: Program,
    scope: Scope,
    place: ast.expr,
    constant: ast.expr,
    tensor: ast.expr,
    what: str,
) -> Iterator[Finding]:
    """The finding, where the value is float16 for certain."""
    if not may_be_float16(program, tensor, scope):
        return
    eps, digits = program.module.source(constant), 6 if what == "zero" else 3
    message = _MESSAGE.format(eps=eps, what=what, digits=digits)
    how = "convert to float32, which costs memory"
    is_written = writer_of(program, tensor) is not None
    fix = (
        to_float(program, [tensor], safe=False, message=how)
        if not is_written  # which would reach a copy alone
        else None
    )
    yield finding_at(program, place, RULE, message, fix=fix)


def _numbers(program: Program, constant: ast.expr, scope: Scope) -> list[float]:
    """What a constant may be: that of an attribute, whichever of its assignments were made."""
    own = number(constant, scope)
    if own is not None or not isinstance(constant, ast.Attribute):
        return [] if own is None else [own]
    parts = held(program, constant, scope)
    found = [number(value, where) for _, value, where in parts]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else []


def _upper_bounds(
    scope: Scope,
) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """`x.clamp(max=1 - 1e-6)`, `x.clamp(0, 1 - 1e-6)`: the place, the bound, and the value."""
    for call in scope.calls:
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr not in _UPPER:
            continue
        at = 0 if "max" in func.attr else 1
        given = [*call.args[at : at + 1]]
        given += [one.value for one in call.keywords if one.arg == "max"]
        for bound in given:
            yield call, bound, func.value


def _uses(
    scope: Scope,
) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Where a constant meets a value, the constant, and the value."""
    for statement in scope.body:
        if isinstance(
            statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            continue
        for node in shallow(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                yield node, node.right, node.left
                yield node, node.left, node.right
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _BOUNDS
            ):
                for given in [
                    *node.args[:1],
                    *(one.value for one in node.keywords if one.arg == "min"),
                ]:
                    yield node, given, node.func.value
