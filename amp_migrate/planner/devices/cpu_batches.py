"""Batches that are made on the CPU in sight, as little programs and tests make them: a model that
runs on one is on the CPU, whatever the rest of the program moves.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.devices import MADE_ON_CPU
from amp_migrate.torch_facts.layers import PARAMETERS

_DEEP = 6
_STAYS = {
    method
    for row in (*ops.shapes.ROWS, *ops.pointwise.ROWS)
    for method in row.methods
} - {"cuda", "to", "type"} | {"float", "double", "long", "requires_grad_"}


def runs_on_cpu_alone(program: Program, model: ast.AST, scope: Scope) -> bool:
    """Whether a body runs what the call `model` makes, and on nothing but such batches."""
    runs = [
        call
        for call in scope.calls
        if program.values.of(call.func, scope).origin is model
        and call is not model
    ]
    return bool(runs) and all(
        bool(call.args)
        and all(is_on_cpu(program, one, scope) for one in call.args)
        and not call.keywords
        for call in runs
    )


def is_on_cpu(
    program: Program, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether a tensor is on the CPU for all that is in sight."""
    if deep == 0:
        return False
    if isinstance(expr, ast.Name):
        bindings = program.reaching.at(expr, expr.id).bindings
        return bool(bindings) and all(
            one.how == "assign"
            and one.index is None
            and one.value is not None
            and is_on_cpu(
                program,
                one.value,
                program.module.scope_of(one.statement),
                deep - 1,
            )
            for one in bindings
        )
    if isinstance(expr, ast.Call):
        return _is_made_there(program, expr, scope, deep)
    if isinstance(expr, ast.Subscript):
        return is_on_cpu(program, expr.value, scope, deep - 1)
    if isinstance(expr, ast.BinOp):
        tensors = [
            one for one in (expr.left, expr.right) if number(one, scope) is None
        ]
        return bool(tensors) and all(
            is_on_cpu(program, one, scope, deep - 1) for one in tensors
        )
    return False


def _is_made_there(
    program: Program, call: ast.Call, scope: Scope, deep: int
) -> bool:
    name = program.canonical(call.func)
    if name in PARAMETERS and call.args:
        return is_on_cpu(program, call.args[0], scope, deep - 1)
    if name is not None:
        told = any(one.arg in (None, "device", "out") for one in call.keywords)
        return name in MADE_ON_CPU and not told
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr in _STAYS
        and is_on_cpu(program, func.value, scope, deep - 1)
    )
