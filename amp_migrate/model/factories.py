"""The classes that a factory of another file may make: those of its file, those that it names or
looks up by name or the factories make which it calls, and those that a registry was given by
decorators.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.found_by_name import found_by_name
from amp_migrate.model.names import dotted_name
from amp_migrate.model.neighbours import Definition
from amp_migrate.model.queries import nodes_in
from amp_migrate.model.sources import Part, held
from amp_migrate.model.syntax import FUNCTIONS, Function, Scope, returned

if TYPE_CHECKING:
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
        if own is not None:
            yield program, own
        elif found is not None and isinstance(found[1], ast.ClassDef):
            yield found
        elif found is None:
            for one in held(program, node, scope):
                yield from _classes_in(one, hops - 1)


def called(program: Program, scope: Scope) -> Iterator[Definition]:
    """What the calls of a scope name in other files, and the classes that are registered with the
    variables whose methods it calls.
    """
    for call in scope.calls:
        one = program.values.abroad(call.func, scope)
        if one is not None:
            yield one
        elif isinstance(call.func, ast.Attribute):
            yield from _registered(program, call.func.value, scope)


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
    for other in near.decorated(name):
        for cls in other.graph.classes():
            marks = (
                dotted_name(one.func if isinstance(one, ast.Call) else one)
                for one in cls.decorator_list
            )
            if any((mark or "").partition(".")[0] == name for mark in marks):
                yield other, cls
