"""The calls of objects, `trainer(batch)`, by the variables and parameters that hold them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.arguments import argument
from amp_migrate.model.body_events import is_super
from amp_migrate.model.names import dotted_name
from amp_migrate.model.syntax import Function, Scope

if TYPE_CHECKING:
    from amp_migrate.model.calls import CallGraph

Holder: TypeAlias = tuple[Scope, str]
"""A variable, by the scope that binds it."""


def calls_of_objects(
    graph: CallGraph, cls: ast.ClassDef
) -> list[tuple[ast.Call, Scope]]:
    """Calls of what holds an object of a class or of an heir, by the names that it is given."""
    made = {
        id(call)
        for heir in graph.heirs(cls)
        for call, _ in graph.constructions(heir)
    }
    held = _Held(graph, made)
    held.fill()
    return [
        (call, scope)
        for call, scope in graph.calls()
        if held.holds(call.func, scope)
    ]


def holder_of(graph: CallGraph, expr: ast.expr, scope: Scope) -> Holder | None:
    """Where a name, or an attribute of `self`, is bound."""
    name = dotted_name(expr)
    if name is None:
        return None
    head, _, rest = name.partition(".")
    if not rest:
        home = scope.lookup(name)
        return (home, name) if home is not None else None
    cls = graph.class_around(scope) if head == scope.self_name else None
    if cls is None:
        return None
    return graph.module.scopes[cls], f"self.{rest}"


def classes_made(
    graph: CallGraph, site: tuple[ast.Call, Scope]
) -> list[ast.ClassDef] | None:
    """The classes in sight of which the holder of a method's call is made, where it is a variable
    that nothing else is given to: `trainer = Trainer(model)`; None where that is not known.
    """
    func, caller = site[0].func, site[1]
    holder = func.value if isinstance(func, ast.Attribute) else None
    if not isinstance(holder, ast.Name):
        return None
    home = caller.lookup(holder.id)
    found: list[ast.ClassDef] = []
    for binding in home.bindings[holder.id] if home is not None else ():
        made = binding.value
        plain = binding.how == "assign" and binding.index is None
        if not plain or not isinstance(made, ast.Call):
            return None
        named = graph.definitions(made.func, graph.module.scope_of(made))
        classes = [one for one in named if isinstance(one, ast.ClassDef)]
        if not classes or len(classes) < len(named):
            return None
        if not all(_has_known_bases(graph, one) for one in classes):
            return None
        found += classes
    return found or None


def is_inherited(
    graph: CallGraph, site: tuple[ast.Call, Scope], cls: ast.ClassDef
) -> bool | None:
    """Whether a call of `super().step()` may run what a class defines: one that comes behind the
    class of the call in the lineage of some object. None for other calls, and where a base is out
    of sight.
    """
    func, owner = site[0].func, site[1].owner
    holder = func.value if isinstance(func, ast.Attribute) else None
    around = owner.node if owner is not None else None
    if not isinstance(around, ast.ClassDef) or holder is None:
        return None
    heirs = graph.heirs(around)
    if not is_super(holder) or not all(
        _has_known_bases(graph, h) for h in heirs
    ):
        return None
    if around in graph.lineage(cls):
        return False
    return any(cls in graph.lineage(heir) for heir in heirs)


def _has_known_bases(graph: CallGraph, cls: ast.ClassDef) -> bool:
    """Whether no base of a class may be a class of a file that was not read with this one."""
    for owner in graph.lineage(cls):
        scope = graph.module.scope_of(owner)
        for base in owner.bases:
            name = graph.module.canonical(base) or dotted_name(base) or ""
            is_known = name == "object" or name.startswith(("torch.", "abc."))
            if not is_known and graph.class_named(base, scope) is None:
                return False
    return True


class _Held:
    """The variables and parameters that hold the result of one of some calls."""

    def __init__(self, graph: CallGraph, made: set[int]) -> None:
        self.graph = graph
        self.made = made
        self.holders: set[Holder | None] = set()

    def fill(self) -> None:
        """Follow assignments and arguments until nothing is found any more."""
        before = -1
        while before != (before := len(self.holders)):
            for scope in self.graph.module.scopes.values():
                self._assigned(scope)
                for call in scope.calls:
                    self.holders |= self._given(call, scope)

    def holds(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether an expression is one of the objects."""
        if id(expr) in self.made:
            return True
        return holder_of(self.graph, expr, scope) in self.holders

    def _assigned(self, scope: Scope) -> None:
        for name, bindings in scope.bindings.items():
            values = [b.value for b in bindings if b.value is not None]
            if any(self.holds(value, scope) for value in values):
                self.holders.add((scope, name))

    def _given(self, call: ast.Call, scope: Scope) -> set[Holder | None]:
        """The parameters that a call gives one of the objects to."""
        arguments = [*call.args, *(one.value for one in call.keywords)]
        if not any(self.holds(one, scope) for one in arguments):
            return set()
        cls = self.graph.class_named(call.func, scope)
        function = self._run_by(call, cls, scope)
        if function is None:
            return set()
        inner = self.graph.module.scopes[function]
        given = {
            one.arg: argument(call, inner, one.arg, cls is not None)
            for one in inner.parameters()
        }
        return {
            (inner, name)
            for name, expr in given.items()
            if expr is not None and self.holds(expr, scope)
        }

    def _run_by(
        self, call: ast.Call, cls: ast.ClassDef | None, scope: Scope
    ) -> Function | None:
        function = self.graph.function_at(call.func, scope)
        if function is None and cls is not None:
            return self.graph.method(cls, "__init__")
        return function
