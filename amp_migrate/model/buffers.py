"""Float32 buffers made in plain sight, and the indices by which they are written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax import Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_MAKERS = {f"torch.{name}" for name in ("zeros", "ones", "empty", "full")}
_KEEPS = {"to", "cuda", "requires_grad_", "float", "fill_", "view", "clone", "contiguous"}


def is_float_buffer(program: Program, expr: ast.expr, scope: Scope, use: ast.AST) -> bool:
    """Whether a name was last bound, before `use`, to `torch.zeros(...)` and the like without a dtype."""
    if not isinstance(expr, ast.Name) or scope.lookup(expr.id) is not scope:
        return False
    line = getattr(use, "lineno", 0)
    bindings = [one for one in scope.bindings[expr.id] if one.how != "augmented"]
    before = [one for one in bindings if getattr(one.statement, "lineno", 0) < line]
    value = before[-1].value if before else None
    return value is not None and _makes_float(program, value)


def _makes_float(program: Program, value: ast.expr) -> bool:
    while isinstance(value, ast.Call):
        if program.canonical(value.func) in _MAKERS:
            full = program.canonical(value.func) == "torch.full"
            return not any(one.arg == "dtype" for one in value.keywords) and (not full or _fills_float(value))
        method = isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPS
        if not method or not isinstance(value.func, ast.Attribute) or _names_dtype(program, value):
            return False
        value = value.func.value
    return False


def _fills_float(call: ast.Call) -> bool:
    """`torch.full((n,), 0)` is an integer tensor."""
    given = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "fill_value")]
    return any(isinstance(one, ast.Constant) and isinstance(one.value, float) for one in given)


def _names_dtype(program: Program, call: ast.Call) -> bool:
    given = [*call.args, *(one.value for one in call.keywords)]
    dtype = any(isinstance(one, ast.Attribute) and one.attr == "dtype" for one in given)
    return dtype or any((program.canonical(one) or "").startswith("torch.") for one in given)


def is_tensor_index(index: ast.expr, scope: Scope) -> bool:
    """Whether an index may be a tensor or a mask; slices and plain numbers are none."""
    if isinstance(index, ast.Tuple):
        return any(is_tensor_index(one, scope) for one in index.elts)
    if isinstance(index, (ast.Slice, ast.Constant, ast.UnaryOp)):
        return isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.Invert)
    if isinstance(index, ast.Name) and (home := scope.lookup(index.id)) is not None:
        return not all(one.how == "for" or isinstance(one.value, ast.Constant) for one in home.bindings[index.id])
    if isinstance(index, ast.BinOp):
        return is_tensor_index(index.left, scope) and is_tensor_index(index.right, scope)
    return True
