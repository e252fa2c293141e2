"""Loops over losses: `for loss in losses: loss.backward()` hands them on, and computes nothing."""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import shallow

_HOLDERS = frozenset(
    {"zip", "enumerate", "list", "tuple", "reversed", "values", "items"}
)
_PLAIN = (
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.Call,
    ast.expr_context,
)


def hands_on(program: Program, statement: ast.stmt, at: ast.stmt) -> bool:
    """Whether a statement is a loop around `at` whose head computes nothing."""
    if not isinstance(statement, (ast.For, ast.AsyncFor)):
        return False
    nodes = shallow(statement.iter)
    return (
        statement in program.module.ancestors(at)
        and all(isinstance(node, _PLAIN) for node in nodes)
        and all(map(_holds, nodes))
    )


def _holds(node: ast.AST) -> bool:
    """`zip(names, losses)`, `losses.items()`; whatever is no call."""
    if not isinstance(node, ast.Call):
        return True
    return (dotted_name(node.func) or "").rpartition(".")[2] in _HOLDERS
