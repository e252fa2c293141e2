"""What a program assigns to attributes of a name, of whatever object."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import calls_in

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def stored_values(
    program: Program, name: str
) -> list[tuple[ast.expr | None, Scope]]:
    """Each with the scope that stores it; None where what is stored is not one value."""
    stored = program.remembered("stored attributes", lambda: _stored(program))
    return stored.get(name, [])


def calls_stored_in(program: Program, holder: str) -> list[ast.Call]:
    """What is called to make the parts of an object: for `self.net`, that of
    `self.net.classifier = nn.Sequential(nn.Linear(4, 2), nn.Sigmoid())`.
    """
    found: list[ast.Call] = []
    for node, statement in program.module.parents.items():
        if not isinstance(node, ast.Attribute):
            continue
        value = getattr(statement, "value", None)
        is_store = isinstance(node.ctx, ast.Store)
        is_part = is_store and dotted_name(node.value) == holder
        if is_part and isinstance(value, ast.expr):
            found += calls_in(value)
    return found


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
