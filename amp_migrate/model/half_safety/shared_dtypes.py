"""Values that have one dtype because one is made like the other, whatever that dtype is.

`result = data.new_zeros(n)` has the dtype of `data` at every call, so what is added to it of `data`
matches in half as in float32, though `data` may be either.
"""

from __future__ import annotations

import ast
from typing import TypeGuard

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.literals import number
from amp_migrate.model.names import dotted_name
from amp_migrate.model.syntax import Binding
from amp_migrate.model.tensors.spelling import operands, spelled

_DEEP = 16
_VIEWS = ("data", "T", "mT")


def share_dtype(asked: Asked, one: ast.expr, other: ast.expr) -> bool:
    """Whether two values get their dtype from one and the same binding."""
    found = _origin(asked, one, _DEEP)
    return found is not None and found is _origin(asked, other, _DEEP)


def _origin(asked: Asked, expr: ast.expr, deep: int) -> Binding | None:
    """The binding whose value has the dtype of `expr`."""
    if deep == 0 or expr in asked.inference.casts:
        return None
    if isinstance(expr, ast.Call):
        inner = _kept(asked, expr)
    elif isinstance(expr, ast.BinOp):
        inner = _beside_number(asked, expr)
    elif _is_view(expr):
        inner = expr.value
    else:
        return _bound(asked, expr, deep)
    return None if inner is None else _origin(asked, inner, deep - 1)


def _is_view(expr: ast.expr) -> TypeGuard[ast.Subscript | ast.Attribute]:
    if isinstance(expr, ast.Attribute):
        return expr.attr in _VIEWS
    return isinstance(expr, ast.Subscript)


def _kept(asked: Asked, call: ast.Call) -> ast.expr | None:
    """`x` of `x.view(-1)`, `x.new_zeros(n)`, `torch.ones_like(x)`."""
    scope = asked.inference.program.module.scope_of(call)
    found = spelled(asked.inference, call, scope)
    if found is None or found.policy != "keeps":
        return None
    names = {one.arg for one in call.keywords}
    given = operands(found, call)
    if found.op.result not in ("same", "like") or names & {"dtype", "out"}:
        return None
    return given[0] if len(given) == 1 and not found.op.sequence else None


def _beside_number(asked: Asked, expr: ast.BinOp) -> ast.expr | None:
    """`x` of `2 * x`; a product of matrices is autocast's."""
    scope = asked.inference.program.module.scope_of(expr)
    if not isinstance(expr.op, (ast.Add, ast.Sub, ast.Mult)):
        return None
    for value, other in ((expr.left, expr.right), (expr.right, expr.left)):
        if number(other, scope) is not None:
            return value
    return None


def _bound(asked: Asked, expr: ast.expr, deep: int) -> Binding | None:
    """By the only binding of a name, or what is assigned there."""
    dotted = dotted_name(expr)
    reaching = asked.inference.program.reaching
    reach = reaching.at(expr, dotted) if dotted is not None else None
    if reach is None or len(reach.bindings) != 1:
        return None
    binding = reach.bindings[0]
    if binding.how != "assign" or binding.index is not None:
        return binding if binding.how == "parameter" else None
    if binding.value is None:
        return None
    return _origin(asked, binding.value, deep - 1) or binding
