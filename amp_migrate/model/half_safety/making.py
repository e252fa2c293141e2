"""Where a cast belongs: where a tensor is made that is written in place further on, or where the
values come about that an operator bounds.
"""

from __future__ import annotations

import ast

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.torch_facts.ops import creation
from amp_migrate.torch_facts.ops.roles import ROUNDS


def where_made(
    asked: Asked, tensor: ast.expr, scope: Scope
) -> tuple[ast.expr, ...]:
    """The expressions that a local gets its values from, where each can be cast; else none. A
    tensor that is made on the spot is nobody else's.
    """
    if _is_made_here(asked, tensor, scope):
        return (tensor,)
    tensor = _whole(asked, tensor, scope)
    if (
        not isinstance(tensor, ast.Name)
        or not scope.is_function
        and scope.parent is not None
    ):
        return ()
    bindings = asked.inference.program.reaching.at(tensor, tensor.id).bindings
    values = [
        one.value
        for one in bindings
        if one.how == "assign" and one.index is None
    ]
    if not bindings or len(values) != len(bindings):
        return ()
    found = [one for one in values if one is not None]
    if any(
        isinstance(one, (ast.Tuple, ast.List, ast.Constant)) for one in found
    ):
        return ()
    home = asked.inference.program.module.scope_of
    return tuple(one for one in found if asked.needs_cast(one, home(one)))


def _whole(asked: Asked, tensor: ast.expr, scope: Scope) -> ast.expr:
    """`flow` of `flow[:, 0][mask] = 1e6`: a part of a tensor has the dtype of the tensor."""
    while isinstance(tensor, ast.Subscript):
        if asked.fact(tensor.value, scope).container:
            break
        tensor = tensor.value
    return tensor


def _is_made_here(asked: Asked, tensor: ast.expr, scope: Scope) -> bool:
    """`torch.empty_like(x)`, `x.new_zeros(3)`: a tensor of that dtype, and no view of it."""
    if not isinstance(tensor, ast.Call):
        return False
    found = spelled(asked.inference, tensor, scope)
    is_new = found is not None and found.op in creation.ROWS
    name = (dotted_name(tensor.func) or "_").rpartition(".")[2]
    return (
        found is not None
        and is_new
        and found.op.result == "like"
        and not name.endswith("_")
    )


def grown_from(asked: Asked, expr: ast.expr, scope: Scope) -> ast.expr:
    """`x - low` of `((x - low) / step).round()`, also where an autograd function rounds: what is
    still small before the division.
    """
    inner = expr
    while isinstance(inner, ast.Call):
        given = _rounded(asked, inner, scope)
        if given is None:
            return expr
        inner = given
    if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Div):
        return expr
    return inner.left if asked.needs_cast(inner.left, scope) else expr


def _rounded(asked: Asked, call: ast.Call, scope: Scope) -> ast.expr | None:
    """What a call rounds."""
    found = spelled(asked.inference, call, scope)
    if found is not None:
        given = operands(found, call)
        return given[0] if found.op.name in ROUNDS and given else None
    func = call.func
    is_applied = isinstance(func, ast.Attribute) and func.attr == "apply"
    return call.args[0] if is_applied and call.args else None
