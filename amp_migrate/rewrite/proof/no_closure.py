"""`optimizer.step(closure=None)` is `optimizer.step()`."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.queries import nodes_in


def leave_out(tree: ast.AST) -> None:
    """Take a closure that is None out of each step that is given nothing else, in place."""
    for node in nodes_in(tree):
        if isinstance(node, ast.Call) and _is_without(node):
            node.keywords = []


def _is_without(call: ast.Call) -> bool:
    match call:
        case ast.Call(
            func=ast.Attribute(attr="step"),
            args=[],
            keywords=[
                ast.keyword(arg="closure", value=ast.Constant(value=None))
            ],
        ):
            return True
    return False
