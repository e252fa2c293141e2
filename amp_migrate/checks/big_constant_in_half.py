"""A constant beyond float16's range is written into values that are half precision under autocast."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from amp_migrate.config import Settings
from amp_migrate.edits import ReplaceExpression, Template
from amp_migrate.lint.finding import Finding, Fix, Rule, finding_at
from amp_migrate.model.literals import number
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope, shallow
from amp_migrate.names import dotted_name

RULE = Rule("big-constant-in-half", severity="error")
HALF_MAX = 65504.0
_RAISING = {"masked_fill": 1, "masked_fill_": 1, "fill_": 0, "clamp": None, "clamp_": None, "clip": None}
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
    """Fills, bounds, choices, assignments, factors and summands of values that are float16 for certain."""
    if not program.regions.regions:
        return
    for scope in program.module.scopes.values():
        for hit in _hits(program, scope):
            if _is_huge(hit.constant, hit, scope) and program.precision.half(hit.tensor, scope) == "float16":
                yield finding_at(program, hit.place, RULE, _message(program, hit), fix=_fix(program, hit, scope))


def _is_huge(constant: ast.expr, hit: _Hit, scope: Scope) -> bool:
    value = number(constant, scope)
    return value is not None and HALF_MAX < abs(value) < float("inf")


def _hits(program: Program, scope: Scope) -> Iterator[_Hit]:
    for statement in scope.body:
        for node in shallow(statement) if not isinstance(statement, _DEFINITIONS) else ():
            if isinstance(node, ast.Call):
                yield from _in_call(program, node)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                target = node.targets[0]
                yield _Hit(node, node.value, target.value, raises=False, mask=True)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
                yield _Hit(node, node.right, node.left, raises=False, mask=False)
                yield _Hit(node, node.left, node.right, raises=False, mask=False)


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _in_call(program: Program, call: ast.Call) -> Iterator[_Hit]:
    name = program.canonical(call.func)
    if name == "torch.where" and len(call.args) == 3:
        yield _Hit(call, call.args[2], call.args[1], raises=False, mask=True)
        yield _Hit(call, call.args[1], call.args[2], raises=False, mask=True)
    elif name in ("torch.nn.functional.pad", "torch.masked_fill", "torch.clamp") and call.args:
        masked = name == "torch.masked_fill"
        for value in [*call.args[2 if masked else 3 :], *(one.value for one in call.keywords)]:
            yield _Hit(call, value, call.args[0], raises=True, mask=masked)
    elif name is None and isinstance(call.func, ast.Attribute) and call.func.attr in _RAISING:
        position = _RAISING[call.func.attr]
        given = call.args if position is None else call.args[position : position + 1]
        for value in [*given, *(one.value for one in call.keywords)]:
            yield _Hit(call, value, call.func.value, raises=True, mask="masked" in call.func.attr)


def _message(program: Program, hit: _Hit) -> str:
    constant = " ".join(program.module.source(hit.constant).split())
    remedy = "use `torch.finfo(x.dtype).min`" if hit.mask else "cast the value with `.float()`"
    return f"`{constant}` {_RAISES if hit.raises else _INFINITE}: {remedy}"


def _fix(program: Program, hit: _Hit, scope: Scope) -> Fix | None:
    value = number(hit.constant, scope)
    torch = program.module.imports.local("torch")
    if not hit.mask or value is None or value > 0 or torch is None or dotted_name(hit.tensor) is None:
        return None
    span = program.module.span
    template = Template(f"{torch}.finfo($0.dtype).min", (span(hit.tensor),))
    edit = ReplaceExpression(span(hit.constant), template)
    return Fix(
        "safe", "fill with the smallest number of the value's own type, which a softmax turns into 0 as well", (edit,)
    )
