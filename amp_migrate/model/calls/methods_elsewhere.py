"""Functions of other files, and methods of objects whose classes stand there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Function, Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def method_elsewhere(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Program, Function] | None:
    """What `helpers.norm(x)` and `self.actor.evaluate(x)` run, where one definition of another
    file is all that they can.
    """
    abroad = program.values.abroad(call.func, scope)
    if abroad is not None:
        home, found = abroad
        return None if isinstance(found, ast.ClassDef) else (home, found)
    if not isinstance(call.func, ast.Attribute):
        return None
    holder = call.func.value
    value = program.values.of(holder, scope)
    if value.foreign is None or value.mixed:
        return None
    home, cls = value.foreign
    method = home.graph.method(cls, call.func.attr)
    return (home, method) if method is not None else None
