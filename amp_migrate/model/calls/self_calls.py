"""Methods that an object calls of itself, and the attributes that they may set."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.call_graph import CallGraph
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.classes.ancestry import ancestry
from amp_migrate.model.dataflow.body_events import is_of_same_object, is_super
from amp_migrate.model.naming.imported import Imported
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Module, Scope
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.dataflow.reaching import Reaching


class Method(NamedTuple):
    """A method, and the analysis of the files that hold it."""

    reaching: Reaching
    function: Function

    @property
    def scope(self) -> Scope:
        """The scope of its body."""
        return self.reaching.module.scopes[self.function]


class SelfCalls:
    """Which methods a call on the same object runs, and what they may set."""

    def __init__(self, reaching: Reaching) -> None:
        self.reaching = reaching
        self.module: Module = reaching.module
        self.graph: CallGraph = reaching.graph
        self.imported: Imported = reaching.imported
        self._own: dict[Scope, set[str]] | None = None
        self._sets: dict[Function, frozenset[str]] = {}
        self._runs: dict[ast.Call, tuple[Method, ...]] = {}
        self._sites: dict[Function, tuple[list[CallSite], bool]] = {}

    def own_sites(self, method: Function) -> tuple[list[CallSite], bool]:
        """The calls of a method by its own object, and whether there are no others."""
        if method not in self._sites:
            sites = self.graph.sites(method)
            own = [
                s for s in sites if is_of_same_object(s.call, s.scope.self_name)
            ]
            self._sites[method] = own, bool(own) and len(own) == len(sites)
        return self._sites[method]

    def methods(self, call: ast.Call, scope: Scope) -> tuple[Method, ...]:
        """The methods that `self.m()`, `super().m()` or `Base.m(self)` may run; heirs' included."""
        if call not in self._runs:
            self._runs[call] = tuple(self._find(call, scope))
        return self._runs[call]

    def _find(self, call: ast.Call, scope: Scope) -> list[Method]:
        assert isinstance(call.func, ast.Attribute)
        cls, name = self.graph.class_around(scope), call.func.attr
        if cls is None:
            return []
        holder = call.func.value
        if is_super(holder):
            return self.inherited(cls, name)
        if not isinstance(holder, ast.Name) or holder.id != scope.self_name:
            base = self.graph.class_named(holder, scope)
            return (
                self.inherited(base, name, itself=True)
                if base
                else self._abroad(holder, name)
            )
        own = self.inherited(cls, name, itself=True)
        heirs = (
            self._defined(heir, name)
            for heir in self.graph.own_classes(cls, holder.id, scope)
            if heir is not cls
        )
        return own + [
            Method(self.reaching, method)
            for method in heirs
            if method is not None
        ]

    def inherited(
        self, cls: ast.ClassDef, name: str, itself: bool = False
    ) -> list[Method]:
        """The method of a class that comes first in its lineage, bases in other files included."""
        for home, owner in ancestry(self.reaching, cls, itself):
            method = self._defined(owner, name)
            if method is not None:
                return [Method(home, method)]
        return []

    def _defined(self, cls: ast.ClassDef, name: str) -> Function | None:
        found = (
            node
            for node in cls.body
            if isinstance(node, FUNCTIONS) and node.name == name
        )
        return next(found, None)

    def _abroad(self, base: ast.expr, name: str) -> list[Method]:
        """The method of a class that another file of the project defines."""
        if base not in self.module.parents:
            return []
        definition = self.imported.definition(
            base, self.module.scope_of(base).root
        )
        if definition is None or not isinstance(definition[1], ast.ClassDef):
            return []
        return definition[0].reaching.calls.inherited(
            definition[1], name, itself=True
        )

    def set_by(self, call: ast.Call, scope: Scope) -> frozenset[str]:
        """The attributes, as `self.x`, that a call of a method of the same object may set."""
        sets = (
            method.reaching.calls.sets(method.function)
            for method in self.methods(call, scope)
        )
        return frozenset().union(*sets)

    def sets(self, function: Function) -> frozenset[str]:
        """The attributes that a method may set, by itself or by methods that it calls."""
        if function not in self._sets:
            self._sets[function] = (
                frozenset()
            )  # where it calls itself, it adds nothing
            scope = self.module.scopes[function]
            own = self._own_sets().get(scope, set())
            inner = (
                self.set_by(call, scope)
                for call in scope.calls
                if is_of_same_object(call, scope.self_name)
            )
            self._sets[function] = frozenset(own).union(*inner)
        return self._sets[function]

    def _own_sets(self) -> dict[Scope, set[str]]:
        """The attributes of `self` by the method that assigns to them."""
        if self._own is None:
            self._own = {}
            for cls in self.graph.classes():
                for name, bindings in self.module.scopes[cls].bindings.items():
                    for binding in bindings if name.startswith("self.") else ():
                        scope = self._method_around(binding.statement)
                        self._own.setdefault(scope, set()).add(name)
        return self._own

    def _method_around(self, node: ast.AST) -> Scope:
        scope = self.module.scope_of(node)
        while scope.owner is None and scope.parent is not None:
            scope = scope.parent
        return scope
