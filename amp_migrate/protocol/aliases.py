"""Who is the same from the start: a scaler or an optimizer that an object was made of, and that the
object keeps under a name of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.owners import part_of
from amp_migrate.model.syntax.module import Scope

_DEEP = 2
"""Objects in objects."""
Alias = tuple[str, str]


def aliases(program: Program, scope: Scope) -> Iterator[Alias]:
    """Names as a function spells them, with the names of the same things."""
    cls = program.graph.class_around(scope)
    if cls is not None and scope.self_name is not None:
        own = f"{scope.qualname}:{scope.self_name}"
        yield from _inside(program, own, cls, _DEEP)


def of_construction(
    program: Program, made: ast.expr, scope: Scope
) -> Iterator[tuple[str, ast.expr]]:
    """The attributes of an object that keep a scaler or an optimizer, with what is given for
    each.
    """
    kind = _class_made(program, made, scope)
    if kind is not None and isinstance(made, ast.Call):
        yield from _kept(program, kind, made, scope)


def _inside(
    program: Program, own: str, cls: ast.ClassDef, deep: int
) -> Iterator[Alias]:
    """The same of the objects that an object makes for itself."""
    if not deep:
        return
    for owner in program.graph.lineage(cls):
        for name, bindings in program.module.scopes[owner].bindings.items():
            made = part_of(bindings[0]) if len(bindings) == 1 else None
            if made is None or not name.startswith("self."):
                continue
            where = program.module.scope_of(made)
            kind = _class_made(program, made, where)
            if kind is None or not isinstance(made, ast.Call):
                continue
            attribute = name.partition(".")[2]
            for kept, given in _kept(program, kind, made, where):
                same = _attribute_with(program, cls, given, where)
                if same is not None:
                    yield f"{own}.{attribute}.{kept}", f"{own}.{same}"
            yield from _inside(program, f"{own}.{attribute}", kind, deep - 1)


def _class_made(
    program: Program, made: ast.expr | None, scope: Scope
) -> ast.ClassDef | None:
    if not isinstance(made, ast.Call):
        return None
    return program.graph.class_named(made.func, scope)


def _kept(
    program: Program, cls: ast.ClassDef, made: ast.Call, scope: Scope
) -> Iterator[tuple[str, ast.expr]]:
    """The attributes that keep what a constructor is given, scalers and optimizers alone."""
    begin = program.graph.method(cls, "__init__")
    if begin is None:
        return
    inner = program.scope(begin)
    parameters = {one.arg for one in inner.parameters()}
    for owner in program.graph.lineage(cls):
        for name, bindings in program.module.scopes[owner].bindings.items():
            value = part_of(bindings[0]) if len(bindings) == 1 else None
            if not isinstance(value, ast.Name) or value.id not in parameters:
                continue
            if program.module.scope_of(value) is not inner:
                continue
            given = argument(made, inner, value.id, True)
            if given is not None and _takes_part(program, given, scope):
                yield name.partition(".")[2], given


def _takes_part(program: Program, given: ast.expr, scope: Scope) -> bool:
    return program.events.is_scaler(
        given, scope
    ) or program.effects.is_optimizer(given, scope)


def _attribute_with(
    program: Program, cls: ast.ClassDef, given: ast.expr, scope: Scope
) -> str | None:
    """The attribute of an object that holds what its constructor hands on."""
    name = dotted_name(given)
    if name is None:
        return None
    if name.partition(".")[0] == scope.self_name:
        return name.partition(".")[2] or None
    for owner in program.graph.lineage(cls):
        for own, bindings in program.module.scopes[owner].bindings.items():
            value = part_of(bindings[0]) if len(bindings) == 1 else None
            if (
                isinstance(value, ast.Name)
                and value.id == name
                and program.module.scope_of(value) is scope
            ):
                return own.partition(".")[2]
    return None
