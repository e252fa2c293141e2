"""Set aside the definitions that a rewrite left alone: AMP that was there before is none of its
business.
"""

from __future__ import annotations

import ast
from typing import TypeAlias

from amp_migrate.rewrite.proof.compare import is_same

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def set_aside(
    before: ast.Module | ast.ClassDef, after: ast.Module | ast.ClassDef
) -> None:
    """Replace each function or class that is the same in both by its name, in place (so that order
    still counts).
    """
    old, new = _definitions(before), _definitions(after)
    for name in old.keys() & new.keys():
        left, right = old[name], new[name]
        if is_same(left, right):
            _stand_in(before.body, left)
            _stand_in(after.body, right)
        elif isinstance(left, ast.ClassDef) and isinstance(right, ast.ClassDef):
            set_aside(left, right)


def _definitions(holder: ast.Module | ast.ClassDef) -> dict[str, Definition]:
    """Those whose name is defined once."""
    found: dict[str, list[Definition]] = {}
    for node in holder.body:
        if isinstance(node, DEFINITIONS):
            found.setdefault(node.name, []).append(node)
    return {name: nodes[0] for name, nodes in found.items() if len(nodes) == 1}


def _stand_in(body: list[ast.stmt], node: Definition) -> None:
    # A name, for a text in front of the module would be its docstring.
    marker = ast.copy_location(
        ast.Expr(ast.Name(f"definition of {node.name}", ast.Load())), node
    )
    body[body.index(node)] = marker
