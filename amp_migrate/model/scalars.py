"""Which values are tensors without dimensions: losses that are reduced to one number."""

from __future__ import annotations

import ast

from amp_migrate.model.kinds import Kind
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.layers import LOSSES

_REDUCED = ("mean", "sum")


def is_scalar(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether `expr` is a loss or a mean of all elements, by each definition that may reach it."""
    name = dotted_name(expr)
    if name is None:
        return _is_reduced(program, expr, scope)
    values = [
        binding.value for binding in program.reaching.at(expr, name).bindings
    ]
    return bool(values) and all(
        value and _is_reduced(program, value, scope) for value in values
    )


def _is_reduced(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """The same of an expression; names in it count as unknown."""
    if isinstance(expr, ast.BinOp):
        return _is_reduced(program, expr.left, scope) and (
            _is_number(expr.right) or _is_reduced(program, expr.right, scope)
        )
    return isinstance(expr, ast.Call) and _gives_scalar(program, expr, scope)


def _is_number(expr: ast.expr) -> bool:
    """A literal, `len(...)` or one of a tensor's sizes."""
    if isinstance(expr, ast.Call):
        name = dotted_name(expr.func) or ""
        return name == "len" or bool(expr.args) and name.endswith(".size")
    return isinstance(expr, ast.Constant) and isinstance(
        expr.value, (int, float)
    )


def _gives_scalar(program: Program, call: ast.Call, scope: Scope) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr in _REDUCED:
        return not call.args and not call.keywords
    spelling = ops.function(program.canonical(call.func))
    if spelling is not None:
        return spelling.op.name in LOSSES and _reduces(call)
    criterion = program.values.of(call.func, scope)
    return (
        criterion.kind is Kind.CRITERION
        and criterion.cls is None
        and isinstance(criterion.origin, ast.Call)
        and _reduces(criterion.origin)
    )


def _reduces(call: ast.Call) -> bool:
    """Whether nothing that is given switches the mean off: `reduction` and `reduce` have names
    wherever they are used.
    """
    return not any(
        keyword.arg in ("reduction", "reduce", None)
        for keyword in call.keywords
    )
