"""The indices by which tensors are written."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.syntax.queries import calls_in

_TEXTS = ("str", "repr")
_OF_TEXT = ("format", "join", "replace", "lower", "upper", "strip")


def _is_number(binding: Binding) -> bool:
    """A constant, a text, or what a loop counts: `for i in ids`, `for i, x in
    enumerate(xs)`; of what a loader yields together, anything may be a tensor:
    `for rows, x in loader`.
    """
    if binding.how != "for":
        number = isinstance(binding.value, ast.Constant)
        return number or binding.index is None and is_text(binding.value)
    if binding.index is None or binding.value is None:
        return binding.index in (None, 0)
    return binding.index == 0 and _counts(binding.value)


def _counts(iterated: ast.expr) -> bool:
    """Whether the first of two that a loop gets is a number or a key."""
    names = {
        getattr(call.func, "id", getattr(call.func, "attr", ""))
        for call in calls_in(iterated)
    }
    return not names.isdisjoint(("enumerate", "zip", "items"))


def is_tensor_index(index: ast.expr, scope: Scope) -> bool:
    """Whether an index may be a tensor or a mask; slices and plain numbers are none."""
    if isinstance(index, ast.Tuple):
        return any(is_tensor_index(one, scope) for one in index.elts)
    if is_text(index):
        return False
    if isinstance(index, (ast.Slice, ast.Constant, ast.UnaryOp)):
        return isinstance(index, ast.UnaryOp) and isinstance(
            index.op, ast.Invert
        )
    if (
        isinstance(index, ast.Name)
        and (home := scope.lookup(index.id)) is not None
    ):
        return not all(_is_number(one) for one in home.bindings[index.id])
    if isinstance(index, ast.BinOp):
        return is_tensor_index(index.left, scope) and is_tensor_index(
            index.right, scope
        )
    return True


def is_text(expr: ast.expr | None) -> bool:
    """Whether an expression gives a text as it is written: a key, and no place
    in a tensor.
    """
    if isinstance(expr, ast.JoinedStr):
        return True
    if isinstance(expr, ast.Constant):
        return isinstance(expr.value, str)
    if isinstance(expr, ast.BinOp):
        return _is_joined_text(expr)
    func = expr.func if isinstance(expr, ast.Call) else None
    if isinstance(func, ast.Name):
        return func.id in _TEXTS
    if not isinstance(func, ast.Attribute):
        return False
    return func.attr in _OF_TEXT and is_text(func.value)


def _is_joined_text(expr: ast.BinOp) -> bool:
    """`"conv_" + name`, `"conv_%d" % count`"""
    if isinstance(expr.op, ast.Mod):
        return is_text(expr.left)
    if not isinstance(expr.op, ast.Add):
        return False
    return is_text(expr.left) or is_text(expr.right)
