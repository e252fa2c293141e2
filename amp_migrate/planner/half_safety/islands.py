"""Operations that must be computed in float32: their statement runs with autocast switched off."""

from __future__ import annotations

import ast

from amp_migrate.model.half_safety import Asked
from amp_migrate.model.queries import nodes_in
from amp_migrate.model.syntax import FUNCTIONS, Scope
from amp_migrate.model.tensors.calls import spelled

_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)


def island(asked: Asked, node: ast.AST, scope: Scope) -> ast.stmt | None:
    """The statement of `node`, where it computes with nothing but operators of torch, of which no
    other would be autocast: layers and functions in it would get what they do not expect.
    """
    statement = asked.inference.program.module.statement_of(node)
    if not isinstance(statement, _SIMPLE) or not isinstance(scope.node, FUNCTIONS):
        return None
    for inner in nodes_in(statement):
        if isinstance(inner, (ast.Lambda, ast.Yield, ast.Await)):
            return None
        if inner is not node and _is_cast_to_half(asked, inner, scope):
            return None
    return statement


def _is_cast_to_half(asked: Asked, node: ast.AST, scope: Scope) -> bool:
    """Whether autocast may have a hand in what a node computes."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    if not isinstance(node, ast.Call):
        return False
    found = spelled(asked.inference, node, scope)
    return found is None or found.policy in ("lower", "banned")
