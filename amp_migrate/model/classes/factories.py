"""The classes that a factory of another file may make: those of its file, those that it names or
looks up by name or the factories make which it calls, and those that a registry was given by
decorators.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.found_by_name import found_by_name
from amp_migrate.model.classes.module_tables import of_module_tables
from amp_migrate.model.dataflow.sources import Part, held
from amp_migrate.model.files.neighbours import Definition, program_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.one_of_several import all_abroad
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, returned
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.project.import_paths import resolved

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Neighbours
    from amp_migrate.model.program import Program

_HOPS = 4
_MOST = 64
"""Definitions behind one factory; a wider one is followed no further."""


def behind(home: Program, node: Definition) -> list[Definition]:
    """A definition, and those that it leads to if it is a factory, nearest first."""
    return home.remembered(
        (behind, node[1]), lambda: list(dict.fromkeys(_followed(node)))
    )


def _followed(node: Definition) -> Iterator[Definition]:
    wanted = [(node, _HOPS)]
    seen = {node[1]}
    for (home, made), hops in wanted:  # grows while it is read
        yield home, made
        if isinstance(made, FUNCTIONS) and hops and len(seen) < _MOST:
            named = (one for part in _parts(home, made) for one in part)
            for one in named:
                if one[1] not in seen:
                    seen.add(one[1])
                    wanted.append((one, hops - 1))


def _parts(home: Program, made: Function) -> Iterator[Iterator[Definition]]:
    """What a factory and the functions in it call, and what it hands back."""
    for node in nodes_in(made):
        if isinstance(node, FUNCTIONS):
            yield called(home, home.scope(node))
    yield _given(home, made)
    yield found_by_name(home, made, home.scope(made))


def _given(program: Program, function: Function) -> Iterator[Definition]:
    """The classes that a factory hands back: by name, or out of a table."""
    scope = program.scope(function)
    for value in returned(function):
        yield from _classes_in((program, value, scope), _HOPS)


def _classes_in(part: Part, hops: int) -> Iterator[Definition]:
    """The classes that an expression names, itself or by a variable that holds them."""
    program, expr, scope = part
    for node in nodes_in(expr) if hops else ():
        if not isinstance(node, (ast.Name, ast.Attribute)):
            continue
        own = program.graph.class_named(node, scope)
        found = program.values.abroad(node, scope) if own is None else None
        near = program.graph.function_at(node, scope)
        if own is not None:
            yield program, own
        elif near is not None:
            for value in returned(near):
                inner = program.scope(near)
                yield from _classes_in((program, value, inner), hops - 1)
        elif found is not None and isinstance(found[1], ast.ClassDef):
            yield found
        elif found is None:
            for one in held(program, node, scope):
                yield from _classes_in(one, hops - 1)
            yield from put_by_decorators(program, dotted_name(node), scope)


def out_of_tables(program: Program) -> Iterator[Definition]:
    """The classes of other files that functions of the program hand back out of a table."""
    own = program.module.paths
    for function, scope in list(program.module.scopes.items()):
        if not isinstance(function, FUNCTIONS):
            continue
        for value in returned(function):
            if isinstance(value, ast.Subscript):
                for one in _classes_in((program, value, scope), _HOPS):
                    if resolved(one[0].module.path) not in own:
                        yield one


def put_by_decorators(
    program: Program, key: str | None, scope: Scope
) -> Iterator[Definition]:
    """`@register("net")` in the files beside one whose `register` puts what it marks in a table:
    `MODELS[name] = cls`.
    """
    near, root = scope.module.neighbours, scope.module.root
    if near is None or key is None or scope.lookup(key) is not root:
        return
    for where in list(program.module.scopes.values()):
        stored = where.stored.get(key, ()) if where.is_function else ()
        if where.lookup(key) is root and any(
            _is_parameter(one.value, where) for one in stored
        ):
            yield from _marked(program, near, _outermost(where))


def _is_parameter(value: ast.expr, scope: Scope) -> bool:
    home = scope.lookup(value.id) if isinstance(value, ast.Name) else None
    return (
        home is not None
        and isinstance(value, ast.Name)
        and any(one.how == "parameter" for one in home.bindings[value.id])
    )


def _outermost(scope: Scope) -> str:
    """The name of the function of the module around a scope."""
    while scope.parent is not None and scope.parent.parent is not None:
        scope = scope.parent
    return scope.node.name if isinstance(scope.node, FUNCTIONS) else ""


def _marked(
    program: Program, near: Neighbours, name: str
) -> Iterator[Definition]:
    for other in _decorated(program, near, name) if name else ():
        for cls in other.graph.classes():
            marks = (_mark(one) for one in cls.decorator_list)
            if any(mark.rpartition(".")[2] == name for mark in marks):
                yield other, cls


def _decorated(program: Program, near: Neighbours, name: str) -> list[Program]:
    """The files near one of the program's in which `@name` marks something; every call of a
    registry asks for them.
    """

    def found() -> list[Program]:
        marking = program.remembered((_decorated, near), near.marking)
        files = (program_of(str(file)) for file in marking.get(name, ()))
        return [one for one in files if one is not None]

    return program.remembered((_decorated, near, name), found)


def _mark(mark: ast.expr) -> str:
    return dotted_name(mark.func if isinstance(mark, ast.Call) else mark) or ""


def called(program: Program, scope: Scope) -> Iterator[Definition]:
    """What the calls of a scope name in other files, and the classes that are registered with the
    variables whose methods it calls.
    """
    for call in scope.calls:
        named = all_abroad(program, call.func, scope)
        yield from named
        if not named and isinstance(call.func, ast.Attribute):
            yield from _registered(program, call.func.value, scope)
            yield from of_module_tables(program, call.func, scope)


def _registered(
    program: Program, registry: ast.expr, scope: Scope
) -> Iterator[Definition]:
    """`@MODELS.register_module()` in the files beside one that calls `MODELS.build(cfg)`."""
    name, near = dotted_name(registry), scope.module.neighbours
    if near is None or name is None or "." in name:
        return
    home = scope.lookup(name)
    if home is None or home is not scope.module.root:
        return
    for other in _decorated(program, near, name):
        for cls in other.graph.classes():
            marks = (_mark(one) for one in cls.decorator_list)
            if any(mark.partition(".")[0] == name for mark in marks):
                yield other, cls
