"""The calls that run a module's `forward` by calling the module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.calls.handed_through import moved
from amp_migrate.model.dataflow.sources import Part, held
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Function, Scope, returned
from amp_migrate.model.values.kinds import Kind, Value

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_RUN = (Kind.MODEL, Kind.CRITERION)
_Runs: TypeAlias = "dict[ast.ClassDef, list[tuple[ast.Call, Scope]]]"


def model_runs(program: Program) -> _Runs:
    """The calls that run a model, by its class."""
    return program.remembered(model_runs, lambda: _found(program))


def called_values(
    program: Program,
) -> Iterator[tuple[ast.Call, Scope, Value]]:
    """The calls of what no library names, with what is called."""
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.canonical(call.func) is None:
                yield call, scope, program.values.of(call.func, scope)


def _found(program: Program) -> _Runs:
    found: _Runs = {}
    for call, scope, value in called_values(program):
        is_made = program.graph.class_named(call.func, scope) is not None
        for cls in _classes(program, call, scope, value) if not is_made else ():
            found.setdefault(cls, []).append((call, scope))
    return found


def _classes(
    program: Program, call: ast.Call, scope: Scope, value: Value
) -> list[ast.ClassDef]:
    """The classes of the model that a call runs: several, where a function chooses one of them."""
    if value.kind not in _RUN:
        return []
    known = [] if value.cls is None else [value.cls]
    chosen = (
        cls
        for home, made, where in _held(program, call.func, scope)
        if home is program
        for cls in _chosen(program, made, where)
    )
    return list(dict.fromkeys([*known, *chosen]))


def _held(program: Program, expr: ast.expr, scope: Scope) -> tuple[Part, ...]:
    return held(program, expr, scope) if dotted_name(expr) is not None else ()


def _chosen(
    program: Program, made: ast.expr, scope: Scope
) -> Iterator[ast.ClassDef]:
    """The classes of which a function makes one: `build(name).to(device)`."""
    built = _unmoved(made)
    function = (
        program.graph.function_at(built.func, scope)
        if isinstance(built, ast.Call)
        else None
    )
    for one in returned(function) if function is not None else ():
        given = _unmoved(one)
        inner = program.module.scope_of(one)
        if isinstance(given, ast.Call):
            cls = program.graph.class_named(given.func, inner)
            yield from [cls] if cls is not None else []


def _unmoved(expr: ast.expr) -> ast.expr:
    while (inner := moved(expr)) is not None:
        expr = inner
    return expr


def sites_of_forward(program: Program, forward: Function) -> list[CallSite]:
    """What runs a method by calling its module, of the class itself or an heir; nothing for a
    method of another name.
    """
    cls = class_of_forward(program, forward)
    if cls is None:
        return []
    runs, graph = model_runs(program), program.graph
    heirs = [
        one
        for one in graph.heirs(cls)
        if graph.method(one, "forward") is forward
    ]
    return [
        CallSite(call, scope, True)
        for heir in heirs
        for call, scope in runs.get(heir, ())
    ]


def class_of_forward(
    program: Program, forward: Function
) -> ast.ClassDef | None:
    """The module whose `forward` a function is."""
    owner = program.scope(forward).owner
    is_forward = forward.name == "forward" and owner is not None
    if not is_forward or not program.effects.is_module_method(forward):
        return None
    assert owner is not None
    return owner.node if isinstance(owner.node, ast.ClassDef) else None
