"""Functions that a variable or a parameter holds: `optimize_fn = optimization_manager(config)`,
which gives back a function of its own body, and the parameter that this is passed for.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, returned
from amp_migrate.model.syntax.queries import is_none

if TYPE_CHECKING:
    from amp_migrate.model.calls.call_graph import CallGraph

_HOPS = 4


def held_function(
    graph: CallGraph, name: ast.Name, scope: Scope, hops: int = _HOPS
) -> Function | None:
    """The one function in sight that a name may hold; None where it may hold anything else."""
    home = scope.lookup(name.id)
    bindings = home.bindings.get(name.id, []) if home is not None else []
    if not hops or home is None or len(bindings) != 1:
        return None
    only = bindings[0]
    if only.how == "parameter" and isinstance(home.node, FUNCTIONS):
        return _passed(graph, name.id, home, hops)
    if only.how != "assign" or only.value is None:
        return None
    if only.index is not None:
        if not isinstance(only.value, ast.Call):
            return None
        return _made(graph, only.value, home, only.index)
    return _given_by(graph, only.value, home, hops)


def _passed(
    graph: CallGraph, name: str, inner: Scope, hops: int
) -> Function | None:
    """What all callers pass for a parameter, or leave it to be; a call without it would fail where
    it is called, where nothing stands for it.
    """
    function = inner.node
    assert isinstance(function, FUNCTIONS)
    if inner.owner is not None or graph.escapes(function):
        return None
    default = default_of(function, name)
    found: set[Function | None] = set()
    if default is not None and not is_none(default):
        around = inner.parent or inner
        found.add(_given_by(graph, default, around, hops - 1))
    for site in graph.sites(function):
        given = argument(site.call, inner, name, site.bound)
        if given is not None and not is_none(given):
            found.add(_given_by(graph, given, site.scope, hops - 1))
    return found.pop() if len(found) == 1 else None


def _given_by(
    graph: CallGraph, value: ast.expr, scope: Scope, hops: int
) -> Function | None:
    """The function that an expression is, or that the factory gives back which it calls."""
    if isinstance(value, ast.Call):
        return _made(graph, value, scope)
    found = graph.function_at(value, scope)
    if found is None and isinstance(value, ast.Name):
        return held_function(graph, value, scope, hops)
    return found


def _made(
    graph: CallGraph, call: ast.Call, scope: Scope, place: int | None = None
) -> Function | None:
    """The one function of its own body that a factory gives back, alone or at a place of several:
    `put, get = keeper()`.
    """
    factory = graph.function_at(call.func, scope)
    if factory is None or factory.decorator_list:
        return None
    inner = graph.module.scopes[factory]
    values = [
        value if place is None else _element(value, place)
        for value in returned(factory)
    ]
    found = {
        graph.function_at(value, inner) if isinstance(value, ast.Name) else None
        for value in values
    }
    only = found.pop() if len(found) == 1 else None
    own = only is not None and graph.module.scopes[only].parent is inner
    return only if own else None


def _element(value: ast.expr, place: int) -> ast.expr | None:
    """`get` of `put, get`."""
    if not isinstance(value, ast.Tuple) or place >= len(value.elts):
        return None
    return value.elts[place]
