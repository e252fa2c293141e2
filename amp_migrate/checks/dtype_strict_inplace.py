"""Half-precision values are written by index into a float32 buffer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.config import Settings
from amp_migrate.edits import ReplaceExpression, Template
from amp_migrate.lint.finding import Finding, Fix, Rule, finding_at
from amp_migrate.model.buffers import is_float_buffer, is_tensor_index
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope, shallow

RULE = Rule("dtype-strict-inplace", severity="error")
# The place of the values among the arguments.
_METHODS = {
    "scatter_": 2,
    "scatter_add_": 2,
    "index_add_": 2,
    "index_copy_": 2,
    "index_put_": 1,
    "masked_scatter_": 1,
    "put_": 1,
}
_MESSAGE = "this raises under autocast, since a write by index converts nothing: write `.to({buffer}.dtype)`"


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Indexed writes of half values into buffers made without a dtype."""
    if not program.regions.regions:
        return
    for scope in program.module.scopes.values():
        for place, buffer, value in _writes(scope):
            half = program.precision.half(value, scope)
            if half is not None and is_float_buffer(program, buffer, scope, place):
                text = program.module.source(buffer)
                yield finding_at(program, place, RULE, _MESSAGE.format(buffer=text), fix=_fix(program, buffer, value))


def _writes(scope: Scope) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr, ast.expr]]:
    """Where something is written, into what, and the values."""
    for statement in scope.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for node in shallow(statement):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                target = node.targets[0]
                if is_tensor_index(target.slice, scope):
                    yield node, target.value, node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
                place = _METHODS[node.func.attr]
                if len(node.args) > place:
                    yield node, node.func.value, node.args[place]


def _fix(program: Program, buffer: ast.expr, value: ast.expr) -> Fix:
    span = program.module.span
    edit = ReplaceExpression(span(value), Template("$0.to($1.dtype)", (span(value), span(buffer))))
    return Fix("safe", "convert the values to the buffer's type, which does nothing without autocast", (edit,))
