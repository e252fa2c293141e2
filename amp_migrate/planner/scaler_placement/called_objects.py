"""Who calls the objects of a class with `__call__`: whoever makes one names the class, and hands
it to functions that name nothing of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.project.import_paths import resolved


def class_called(
    program: Program, node: Function | ast.ClassDef
) -> ast.ClassDef | None:
    """The class whose objects run a function by being called."""
    if isinstance(node, ast.ClassDef) or node.name != "__call__":
        return None
    owner = program.scope(node).owner
    held = owner.node if owner is not None else None
    return held if isinstance(held, ast.ClassDef) else None


def handed_to(program: Program, cls: ast.ClassDef) -> Iterator[str]:
    """The files of functions elsewhere that the program hands an object of `cls` to."""
    family = {cls, *program.graph.heirs(cls)}
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if any(
                program.values.of(one, scope).cls in family
                for one in _given(call)
            ):
                yield from _home(program, call, scope)


def _given(call: ast.Call) -> Iterator[ast.expr]:
    """What a call hands on by a name."""
    for one in (*call.args, *(k.value for k in call.keywords)):
        if isinstance(one, (ast.Name, ast.Attribute, ast.Call)):
            yield one


def _home(program: Program, call: ast.Call, scope: Scope) -> Iterator[str]:
    found = program.values.abroad(call.func, scope)
    if found is not None:
        yield resolved(found[0].module.path)
