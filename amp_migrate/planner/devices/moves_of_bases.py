"""Models that the constructor of a base class in another file moves, once the constructor of its
heir has made them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.classes.bases_abroad import with_bases
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.planner.devices.moves import DeviceUse


def moves_later(
    program: Program, model: ast.expr, scope: Scope, place: ast.stmt
) -> bool:
    """Whether a base class moves `self.model` behind a place in the constructor of an heir."""
    cls = program.graph.class_around(scope)
    head, _, name = (dotted_name(model) or "").partition(".")
    if cls is None or not name or head != scope.self_name:
        return False
    if not any(_begun_behind(scope, place)):
        return False
    for home, base in with_bases(program, cls):
        if home is not program and name in _moved(home, base):
            return True
    return False


def _begun_behind(scope: Scope, place: ast.stmt) -> Iterator[bool]:
    """The calls of a base's constructor that follow."""
    for statement in scope.body:
        if statement.lineno <= place.lineno:
            continue
        for call in calls_in(statement):
            func = call.func
            if isinstance(func, ast.Attribute):
                yield func.attr == "__init__"


def _moved(home: Program, base: ast.ClassDef) -> set[str]:
    """The attributes that a class moves to a device."""
    use = home.remembered(DeviceUse, lambda: DeviceUse(home))
    found: set[str] = set()
    for move in use.moves:
        if home.graph.class_around(move.scope) is not base:
            continue
        head, _, name = (dotted_name(move.moved) or "").partition(".")
        if head == move.scope.self_name:
            found.add(name)
    return found
