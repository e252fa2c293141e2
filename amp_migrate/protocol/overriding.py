"""Methods that an heir puts in the place of those of its bases: `self.before_step()` in a base
class runs what the object's own class says.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.steps.recognition import Events
from amp_migrate.model.syntax.module import Function, Scope


def overriding(
    events: Events, call: ast.Call, scope: Scope
) -> tuple[Function, ...]:
    """The methods with events that heirs put in the place of what `self.method()` calls."""
    cls, name = _class_of(scope), _own_method(call, scope)
    graph = events.program.graph
    if cls is None or name is None or len(graph.heirs(cls)) == 1:
        return ()
    own = graph.method(cls, name)
    methods = (graph.method(heir, name) for heir in graph.heirs(cls))
    found = dict.fromkeys(
        one for one in methods if one is not None and one is not own
    )
    return tuple(one for one in found if events.of_function(one))


class Dispatch:
    """Says what a call runs where `self` is an object of a certain class."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.graph = events.program.graph
        self.acting: ast.ClassDef | None = None
        """The class of `self`; None where that is the class around."""

    def callee(self, call: ast.Call, scope: Scope) -> Function | None:
        """The function in sight that `call` runs, if it holds events."""
        name, cls = _own_method(call, scope), _class_of(scope)
        if (
            self.acting is None
            or name is None
            or cls not in self.graph.lineage(self.acting)
        ):
            return self.events.callee(call, scope)
        method = self.graph.method(self.acting, name)
        return (
            method
            if method is not None and self.events.of_function(method)
            else None
        )

    def changes(self, heir: ast.ClassDef, functions: Iterable[ast.AST]) -> bool:
        """Whether some of the functions run something else for an object of `heir`."""
        scopes = self.events.program.module.scopes
        before, self.acting = self.acting, heir
        try:
            return any(
                self.callee(call, scopes[function])
                is not self.events.callee(call, scopes[function])
                for function in functions
                for call in scopes[function].calls
            )
        finally:
            self.acting = before


def _class_of(scope: Scope) -> ast.ClassDef | None:
    node = scope.owner.node if scope.owner is not None else None
    return node if isinstance(node, ast.ClassDef) else None


def _own_method(call: ast.Call, scope: Scope) -> str | None:
    """`method` of `self.method()`."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not isinstance(
        func.value, ast.Name
    ):
        return None
    return func.attr if func.value.id == scope.self_name else None
