"""What calls run in other files of the project."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Function, Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def body_abroad(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Program, Function] | None:
    """The function, the method, or the `forward` of a model, of another file that a call runs."""
    found = program.values.abroad(call.func, scope)
    if found is not None:
        home, one = found
        return None if isinstance(one, ast.ClassDef) else (home, one)
    func = call.func
    for owner, name in _owners(func):
        foreign = program.values.of(owner, scope).foreign
        method = foreign[0].graph.method(foreign[1], name) if foreign else None
        if foreign is not None and method is not None:
            return foreign[0], method
    return None


def _owners(func: ast.expr) -> list[tuple[ast.expr, str]]:
    """The objects whose method a call may be, with its name."""
    found = [(func, "forward")]
    if isinstance(func, ast.Attribute):
        found.append((func.value, func.attr))
    return found
