"""A constant beyond float16's range is written into values that are half precision under
autocast.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._half import may_be_float16
from amp_migrate.config import Settings
from amp_migrate.model.half_safety.constants import (
    arguments,
    constant_arguments,
)
from amp_migrate.model.half_safety.huge_numbers import whatever_huge
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope, shallow
from amp_migrate.model.tensors.spelling import spelled
from amp_migrate.records import NamedTuple
from amp_migrate.rewrite.edits import ReplaceExpression, Template
from amp_migrate.torch_facts import ops

RULE = Rule("big-constant-in-half", severity="error")
_RAISES = "does not fit into float16, so this raises under autocast"
_INFINITE = "does not fit into float16 and becomes an infinity without a word"


class _Hit(NamedTuple):
    place: ast.expr | ast.stmt
    constant: ast.expr
    tensor: ast.expr
    raises: bool
    mask: bool
    """Whether it fills the places of a mask, where the smallest number does as well."""


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Fills, bounds, choices, assignments, factors and summands of values that are float16 for
    certain.
    """
    if not program.regions.regions:
        return
    for scope in program.module.scopes.values():
        for hit in _hits(program, scope):
            if whatever_huge(program, hit.constant, scope) and may_be_float16(
                program, hit.tensor, scope
            ):
                yield finding_at(
                    program,
                    hit.place,
                    RULE,
                    _message(program, hit),
                    fix=_fix(program, hit, scope),
                )


def _hits(program: Program, scope: Scope) -> Iterator[_Hit]:
    for statement in scope.body:
        for node in (
            shallow(statement)
            if not isinstance(statement, _DEFINITIONS)
            else ()
        ):
            if isinstance(node, ast.Call) and _is_given_huge(
                program, node, scope
            ):
                yield from _in_call(program, node, scope)
            elif isinstance(node, ast.Assign) and isinstance(
                node.targets[0], ast.Subscript
            ):
                target = node.targets[0]
                yield _Hit(
                    node, node.value, target.value, raises=False, mask=True
                )
            elif isinstance(node, ast.BinOp) and isinstance(
                node.op, (ast.Add, ast.Sub, ast.Mult)
            ):
                yield _Hit(
                    node, node.right, node.left, raises=False, mask=False
                )
                yield _Hit(
                    node, node.left, node.right, raises=False, mask=False
                )


def _is_given_huge(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether any number in a call is too large; few calls have one, whatever they run."""
    given = [*call.args, *(word.value for word in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        given.append(call.func.value)
    return any(whatever_huge(program, one, scope) for one in given)


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _in_call(program: Program, call: ast.Call, scope: Scope) -> Iterator[_Hit]:
    found = spelled(program.precision.inference, call, scope)
    if found is None or not found.op.constants:
        return
    if found.op in ops.creation.ROWS and found.op.result != "like":
        return
    is_mask = "masked" in found.op.name
    given = arguments(call, found)
    if found.op.name == "where":
        if len(given) == 3:
            yield _Hit(call, given[2], given[1], raises=False, mask=True)
            yield _Hit(call, given[1], given[2], raises=False, mask=True)
        return
    for value in constant_arguments(call, found, given):
        if value is not None and given:
            yield _Hit(call, value, given[0], raises=True, mask=is_mask)


def _message(program: Program, hit: _Hit) -> str:
    constant = " ".join(program.module.source(hit.constant).split())
    remedy = (
        "use `torch.finfo(x.dtype).min`"
        if hit.mask
        else "cast the value with `.float()`"
    )
    return f"`{constant}` {_RAISES if hit.raises else _INFINITE}: {remedy}"


def _fix(program: Program, hit: _Hit, scope: Scope) -> Fix | None:
    values = whatever_huge(program, hit.constant, scope)
    torch = program.module.imports.local("torch")
    if (
        not hit.mask
        or max(values) > 0
        or torch is None
        or dotted_name(hit.tensor) is None
    ):
        return None
    span = program.module.span
    template = Template(f"{torch}.finfo($0.dtype).min", (span(hit.tensor),))
    edit = ReplaceExpression(span(hit.constant), template)
    return Fix(
        "safe",
        (
            "fill with the smallest number of the value's own type, which a softmax turns into 0 "
            "as "
            "well"
        ),
        (edit,),
    )
