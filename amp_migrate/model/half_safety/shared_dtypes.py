"""Values that have one dtype because one is made like the other, whatever that dtype is.

`result = data.new_zeros(n)` has the dtype of `data` at every call, so what is added to it of `data`
matches in half as in float32, though `data` may be either.
"""

from __future__ import annotations

import ast
from typing import TypeGuard

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.literals import number

_DEEP = 16
_NEAR = 6
_TURNS = ("to", "type", "type_as")
_VIEWS = ("data", "T", "mT")


def share_dtype(asked: Asked, one: ast.expr, other: ast.expr) -> bool:
    """Whether two values get their dtype from one and the same variable, as it was last bound."""
    if _is_like(asked, one, other) or _is_like(asked, other, one):
        return True
    found = _origin(asked, one, _DEEP)
    return bool(found) and found == _origin(asked, other, _DEEP)


def _is_like(asked: Asked, value: ast.expr, like: ast.expr) -> bool:
    """Whether a value is `made.to(like)`, or `made.to(like.dtype)`, of that very tensor."""
    if not isinstance(value, ast.Call) or len(value.args) != 1:
        return False
    func, given = value.func, value.args[0]
    if not isinstance(func, ast.Attribute) or func.attr not in _TURNS:
        return False
    if isinstance(given, ast.Attribute) and given.attr == "dtype":
        given = given.value
    name = dotted_name(given)
    if name is None or name != dotted_name(like):
        return False
    reaching = asked.inference.program.reaching
    held = reaching.at(given, name).bindings
    return held == reaching.at(like, name).bindings


def is_turned_to(
    asked: Asked, expr: ast.expr, dtype: ast.expr, deep: int = _NEAR
) -> bool:
    """Whether a value has the dtype that a variable names: `x.to(dtype)`, `x.to(dtype).view(-1)`,
    `torch.zeros(n, dtype=dtype)`, or a name for one of these.
    """
    if deep == 0 or expr in asked.inference.casts:
        return False
    if isinstance(expr, ast.Call) and _names(asked, expr, dtype):
        return True
    inner: list[ast.expr | None] = []
    if isinstance(expr, ast.Call):
        inner = [_kept(asked, expr)]
    elif isinstance(expr, ast.BinOp):
        inner = [_beside_number(asked, expr)]
    elif _is_view(expr):
        inner = [expr.value]
    elif (dotted := dotted_name(expr)) is not None:
        found = asked.inference.program.reaching.at(expr, dotted).bindings
        inner = [one.value if _is_whole(one) else None for one in found]
    return bool(inner) and all(
        one is not None and is_turned_to(asked, one, dtype, deep - 1)
        for one in inner
    )


def _names(asked: Asked, call: ast.Call, dtype: ast.expr) -> bool:
    """Whether a call asks for the dtype that a variable holds there, as it was last bound."""
    func, name = call.func, dotted_name(dtype)
    given = [one.value for one in call.keywords if one.arg == "dtype"]
    if isinstance(func, ast.Attribute) and func.attr in _TURNS:
        given += call.args
    reaching = asked.inference.program.reaching
    return name is not None and any(
        dotted_name(one) == name
        and reaching.at(one, name).bindings == reaching.at(dtype, name).bindings
        for one in given
    )


def _origin(asked: Asked, expr: ast.expr, deep: int) -> tuple[Binding, ...]:
    """The bindings of which each may have given a value the dtype of `expr`: those of one
    variable, which holds one of them.
    """
    if deep == 0 or expr in asked.inference.casts:
        return ()
    if isinstance(expr, ast.Call):
        inner = _kept(asked, expr)
    elif isinstance(expr, ast.BinOp):
        inner = _beside_number(asked, expr)
    elif _is_view(expr):
        inner = expr.value
    else:
        return _bound(asked, expr, deep)
    return () if inner is None else _origin(asked, inner, deep - 1)


def _is_view(expr: ast.expr) -> TypeGuard[ast.Subscript | ast.Attribute]:
    if isinstance(expr, ast.Attribute):
        return expr.attr in _VIEWS
    return isinstance(expr, ast.Subscript)


def _kept(asked: Asked, call: ast.Call) -> ast.expr | None:
    """`x` of `x.view(-1)`, `x.new_zeros(n)`, `torch.ones_like(x)`, `zeros(n, dtype=x.dtype)`."""
    scope = asked.inference.program.module.scope_of(call)
    found = spelled(asked.inference, call, scope)
    names = {one.arg for one in call.keywords}
    if found is None or "out" in names:
        return None
    if "dtype" in names:
        return _named_dtype(call)
    if found.policy != "keeps" or found.op.result not in ("same", "like"):
        return None
    given = operands(found, call)
    return given[0] if len(given) == 1 and not found.op.sequence else None


def _named_dtype(call: ast.Call) -> ast.expr | None:
    """`x` of `dtype=x.dtype`."""
    for keyword in call.keywords:
        value = keyword.value
        if keyword.arg == "dtype" and isinstance(value, ast.Attribute):
            return value.value if value.attr == "dtype" else None
    return None


def _beside_number(asked: Asked, expr: ast.BinOp) -> ast.expr | None:
    """`x` of `2 * x`; a product of matrices is autocast's."""
    scope = asked.inference.program.module.scope_of(expr)
    if not isinstance(expr.op, (ast.Add, ast.Sub, ast.Mult)):
        return None
    for value, other in ((expr.left, expr.right), (expr.right, expr.left)):
        if number(other, scope) is not None:
            return value
    return None


def _bound(asked: Asked, expr: ast.expr, deep: int) -> tuple[Binding, ...]:
    """By the bindings of a name, or what is assigned there by the only one."""
    dotted = dotted_name(expr)
    reaching = asked.inference.program.reaching
    found = reaching.at(expr, dotted).bindings if dotted is not None else ()
    if len(found) != 1:
        return found if all(map(_is_whole, found)) else ()
    binding = found[0]
    if not _is_whole(binding):
        return found if binding.how == "parameter" else ()
    if binding.value is None:
        return ()
    return _origin(asked, binding.value, deep - 1) or found


def _is_whole(binding: Binding) -> bool:
    """`x = value`, and not `x, y = value`."""
    return binding.how == "assign" and binding.index is None
