"""Which heirs of a class may run one of its methods."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope

if TYPE_CHECKING:
    from amp_migrate.model.calls.call_graph import CallGraph


def heirs_that_run(
    graph: CallGraph, cls: ast.ClassDef, method: Function
) -> list[ast.ClassDef]:
    """The heirs of a class whose objects may run a method: not those that put another in its place
    and never come back to it, as `super().train_epoch()` does.
    """
    return [one for one in graph.heirs(cls) if _may_run(graph, one, method)]


def have_method(
    graph: CallGraph, classes: Iterable[ast.ClassDef], method: Function
) -> bool:
    """Whether an object of any of these classes has a method, and none in its place."""
    scopes = graph.module.scopes
    owner = scopes[method].owner
    found = (graph.method(one, method.name) for one in classes)
    return any(one and scopes[one].owner is owner for one in found)


def method_of_self(scope: Scope, name: str) -> Function | None:
    """The method around a scope that calls its object so."""
    here: Scope | None = scope
    while here is not None and here.owner is None:
        here = here.parent
    node = here.node if here is not None else None
    is_self = here is not None and here.self_name == name
    return node if is_self and isinstance(node, FUNCTIONS) else None


def _may_run(graph: CallGraph, heir: ast.ClassDef, method: Function) -> bool:
    owner = graph.module.scopes[method].owner
    cls = owner.node if owner is not None else None
    lineage = graph.lineage(heir)
    if not isinstance(cls, ast.ClassDef) or cls not in lineage:
        return True
    if graph.method(heir, method.name) is method:
        return True
    between = [one for one in lineage if one not in graph.lineage(cls)]
    return any(_leads_to(graph, one, method) for one in between)


def _leads_to(graph: CallGraph, cls: ast.ClassDef, method: Function) -> bool:
    """Whether a class names the method other than as `self.method()`, which runs its own."""
    for call, caller in graph.calls_of(method.name):
        func = call.func
        if (
            isinstance(func, ast.Attribute)
            and graph.class_around(caller) is cls
        ):
            holder = func.value
            if (
                not isinstance(holder, ast.Name)
                or holder.id != caller.self_name
            ):
                return True
    scope_of = graph.module.scope_of
    return any(
        graph.class_around(scope_of(one)) is cls
        for one in graph.mentions(method)
    )
