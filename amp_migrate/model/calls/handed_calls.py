"""Calls of functions by those that they are handed to: `run(train, model, optimizer)` where `run`
calls its parameter, `Thread(target=train, args=(model, optimizer))`, `partial(train, model)`.

Each is told as the call that happens in the end, with the arguments that can be told from where
the function is handed over; it stands nowhere in the text, so that it says what parameters hold
and is never edited.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import default_of
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.calls.passed_on import Passed, unknown
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.syntax.substitution import made_call

if TYPE_CHECKING:
    from amp_migrate.model.calls.call_graph import CallGraph

PARTIALS = ("functools.partial", "functools.partialmethod")
_SPAWN = "torch.multiprocessing.spawn"


def handed_calls(graph: CallGraph, function: Function) -> Iterator[CallSite]:
    """The calls that reach `function` through what it is handed to."""
    is_method = graph.module.scopes[function].owner is not None
    for node in graph.mentions(function):
        scope = graph.module.scope_of(node)
        if not is_method or _is_own(node, scope):
            for call in _through(graph, node, scope):
                yield CallSite(call, scope, bound=is_method)
        for name, home in _stands_for(graph, node):
            yield from _called_by(graph, name, home)
        returned, place = _returned(graph, node)
        if returned:
            for name, home in _given_back(graph, scope, place):
                yield from _called_by(graph, name, home)


def all_followed(graph: CallGraph, function: Function) -> bool:
    """Whether whoever is handed the function is in sight and does no more than call it."""
    return all(
        _is_only_called(graph, node) for node in graph.mentions(function)
    )


def _stands_for(
    graph: CallGraph,
    node: ast.expr,
) -> Iterator[tuple[str, Scope]]:
    """The parameter whose default it is: `def fit(model, step=train_step)`."""
    function = graph.module.parents[graph.module.parents[node]]
    if isinstance(function, FUNCTIONS):
        inner = graph.module.scopes[function]
        for one in inner.parameters():
            if default_of(function, one.arg) is node:
                yield one.arg, inner


def _returned(graph: CallGraph, node: ast.expr) -> tuple[bool, int | None]:
    """Whether a function is given back, and at which place of several: `return put, get`."""
    above = graph.module.parents[node]
    if isinstance(above, ast.Tuple):
        place = above.elts.index(node)
        return isinstance(graph.module.parents[above], ast.Return), place
    return isinstance(above, ast.Return), None


def _given_back(
    graph: CallGraph, scope: Scope, place: int | None = None
) -> Iterator[tuple[str, Scope]]:
    """The variables that get what a factory returns, or what it does at a place of several: `step =
    make_step(model)`, `put, get = keeper()`.
    """
    factory = scope.node
    if not isinstance(factory, FUNCTIONS) or scope.owner is not None:
        return
    for site in graph.sites(factory):
        kept = graph.module.parents[site.call]
        if isinstance(kept, ast.Assign) and len(kept.targets) == 1:
            target = _at(kept.targets[0], place)
            home = (
                site.scope.lookup(target.id)
                if isinstance(target, ast.Name)
                else None
            )
            if home is not None and isinstance(target, ast.Name):
                yield target.id, home


def _at(target: ast.expr, place: int | None) -> ast.expr | None:
    if place is None:
        return target
    if not isinstance(target, (ast.Tuple, ast.List)):
        return None
    return target.elts[place] if place < len(target.elts) else None


def _called_by(
    graph: CallGraph,
    name: str,
    home: Scope,
) -> Iterator[CallSite]:
    """The calls of a variable, which stand in the text."""
    for call, caller in graph.calls_of(name):
        if isinstance(call.func, ast.Name) and caller.lookup(name) is home:
            yield CallSite(call, caller, bound=False)


def _is_only_called(graph: CallGraph, node: ast.expr) -> bool:
    """Whether who is handed a function does nothing but call it."""
    holder = graph.module.parents[node]
    if isinstance(holder, ast.Return):
        return _is_given_to_callers(graph, graph.module.scope_of(node))
    outer = (
        graph.module.parents[holder]
        if isinstance(holder, ast.keyword)
        else holder
    )
    if not isinstance(outer, ast.Call) or outer.func is node:
        return False
    taken = graph.function_at(outer.func, graph.module.scope_of(node))
    if taken is None:
        return False
    inner = graph.module.scopes[taken]
    names = [
        name
        for name, value in Passed(outer, inner).values.items()
        if value is node
    ]
    reads = [
        read
        for read in graph.module.parents
        if isinstance(read, ast.Name)
        and read.id in names
        and graph.module.scope_of(read).lookup(read.id) is inner
    ]
    calls = {call.func for call in inner.calls}
    return bool(names) and all(read in calls for read in reads)


def _is_given_to_callers(graph: CallGraph, scope: Scope) -> bool:
    """Whether all that call a factory keep what it returns in variables, and only call these."""
    factory = scope.node
    if not isinstance(factory, FUNCTIONS) or scope.owner is not None:
        return False
    kept = list(_given_back(graph, scope))
    if graph.escapes(factory) or len(kept) < len(graph.sites(factory)):
        return False
    reads = [
        read
        for name, home in kept
        for read in graph.module.parents
        if isinstance(read, ast.Name)
        and isinstance(read.ctx, ast.Load)
        and read.id == name
        and graph.module.scope_of(read).lookup(name) is home
    ]
    parents = graph.module.parents
    return bool(kept) and all(
        isinstance(call := parents[read], ast.Call) and call.func is read
        for read in reads
    )


def _is_own(node: ast.expr, scope: Scope) -> bool:
    """`self.train`"""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == scope.self_name
    )


def _through(
    graph: CallGraph, node: ast.expr, scope: Scope
) -> Iterator[ast.Call]:
    holder = graph.module.parents[node]
    outer = (
        graph.module.parents[holder]
        if isinstance(holder, ast.keyword)
        else holder
    )
    if isinstance(outer, ast.Assign):
        yield from _by_variable(outer, node, scope)
    if not isinstance(outer, ast.Call) or outer.func is node:
        return
    taken = graph.function_at(outer.func, scope)
    if taken is not None:
        yield from _by_parameter(graph, outer, node, taken)
    elif graph.module.canonical(outer.func) in PARTIALS and outer.args[:1] == [
        node
    ]:
        yield made_call(node, outer.args[1:], outer.keywords)
    elif (given := _tuple_of_arguments(outer)) is not None:
        is_ranked = graph.module.canonical(outer.func) == _SPAWN
        yield made_call(node, [*([unknown()] if is_ranked else []), *given], [])


def _by_variable(
    assigned: ast.Assign, node: ast.expr, scope: Scope
) -> Iterator[ast.Call]:
    """`loop = train_gcn; loop(model)`, in one body."""
    names = {one.id for one in assigned.targets if isinstance(one, ast.Name)}
    for call in scope.calls if assigned.value is node else ():
        if isinstance(call.func, ast.Name) and call.func.id in names:
            told = made_call(node, call.args, call.keywords)
            yield ast.copy_location(told, call)


def _tuple_of_arguments(call: ast.Call) -> list[ast.expr] | None:
    """`Thread(target=train, args=(a, b))`, `spawn(train, args=(a, b))`"""
    found = next(
        (one.value for one in call.keywords if one.arg == "args"), None
    )
    return found.elts if isinstance(found, (ast.Tuple, ast.List)) else None


def _by_parameter(
    graph: CallGraph, outer: ast.Call, node: ast.expr, taken: Function
) -> Iterator[ast.Call]:
    """The calls of the parameter that holds the function, in the body of `taken`."""
    inner = graph.module.scopes[taken]
    passed = Passed(outer, inner)
    names = [name for name, value in passed.values.items() if value is node]
    for call in inner.calls:
        if isinstance(call.func, ast.Name) and call.func.id in names:
            yield made_call(
                node, passed.positional(call), passed.keywords(call)
            )
