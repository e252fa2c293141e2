"""What a program assigns to attributes of a name, of whatever object."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def stored_values(
    program: Program, name: str
) -> list[tuple[ast.expr | None, Scope]]:
    """Each with the scope that stores it; None where what is stored is not one value."""
    stored = program.remembered("stored attributes", lambda: _stored(program))
    return stored.get(name, [])


def _stored(
    program: Program,
) -> dict[str, list[tuple[ast.expr | None, Scope]]]:
    found: dict[str, list[tuple[ast.expr | None, Scope]]] = {}
    for node, statement in program.module.parents.items():
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            value = getattr(statement, "value", None)
            given = value if isinstance(value, ast.expr) else None
            where = program.module.scope_of(node)
            found.setdefault(node.attr, []).append((given, where))
    return found
