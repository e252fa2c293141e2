"""The calls of objects, `trainer(batch)`, by the variables and parameters that hold them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.dataflow.body_events import is_super
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Function, Scope

if TYPE_CHECKING:
    from amp_migrate.model.calls.call_graph import CallGraph

Holder: TypeAlias = tuple[Scope, str]
"""A variable, by the scope that binds it."""
Source: TypeAlias = "int | Holder"
"""What gives an object: a call, by the id of its node, or a variable."""
Site: TypeAlias = tuple[ast.Call, Scope]


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


class ObjectFlow:
    """Which variables and parameters the results of calls come into, for all classes of a module:
    what is given to whom is read once.
    """

    def __init__(self, graph: CallGraph) -> None:
        self.graph = graph
        self._assigned: dict[Source | None, list[Holder]] = {}
        self._handed: dict[Source | None, list[Site]] = {}
        self._called: dict[Source | None, list[int]] = {}
        """The sites that call what a source gives."""
        self._sites: list[Site] = []
        self._taken: dict[ast.Call, list[tuple[Source | None, Holder]]] = {}

    def calls_of(self, cls: ast.ClassDef) -> list[Site]:
        """Calls of what holds an object of a class or of an heir, by the names that it is given."""
        if not self._sites:
            self._read()
        made = {
            id(call)
            for heir in self.graph.heirs(cls)
            for call, _ in self.graph.constructions(heir)
        }
        held = self._reached(made)
        found = [at for one in held for at in self._called.get(one, ())]
        return [self._sites[at] for at in sorted(found)]

    def _read(self) -> None:
        """What each source is assigned and handed to, and who calls it."""
        for scope in self.graph.module.scopes.values():
            self._read_names(scope)
            self._read_calls(scope)
        self._sites = list(self.graph.calls())
        for at, (call, scope) in enumerate(self._sites):
            source = self._source(call.func, scope)
            self._called.setdefault(source, []).append(at)

    def _read_names(self, scope: Scope) -> None:
        """What the names of one scope are assigned."""
        for name, bindings in scope.bindings.items():
            for one in bindings:
                source = self._source(one.value, scope)
                self._assigned.setdefault(source, []).append((scope, name))

    def _read_calls(self, scope: Scope) -> None:
        """What the calls of one scope are handed."""
        for call in scope.calls:
            named = (one.value for one in call.keywords)
            for given in (*call.args, *named):
                source = self._source(given, scope)
                self._handed.setdefault(source, []).append((call, scope))

    def _source(self, expr: ast.expr | None, scope: Scope) -> Source | None:
        """What an expression is known by: a call by itself, a variable by its scope and name."""
        if isinstance(expr, ast.Call):
            return id(expr)
        return None if expr is None else holder_of(self.graph, expr, scope)

    def _reached(self, made: set[int]) -> set[Source]:
        """Everything that holds the result of one of some calls."""
        held: set[Source] = set(made)
        waiting: list[Source] = [*made]
        while waiting:
            source = waiting.pop()
            found = set(self._assigned.get(source, ()))
            for site in self._handed.get(source, ()):
                found |= {to for by, to in self._takes(*site) if by == source}
            waiting += found - held
            held |= found
        return held

    def _takes(
        self, call: ast.Call, scope: Scope
    ) -> list[tuple[Source | None, Holder]]:
        """The parameters of what a call runs, each with what it is given there."""
        if call not in self._taken:
            self._taken[call] = list(self._given(call, scope))
        return self._taken[call]

    def _given(
        self, call: ast.Call, scope: Scope
    ) -> Iterator[tuple[Source | None, Holder]]:
        """The same, found anew."""
        cls = self.graph.class_named(call.func, scope)
        function = self._run_by(call, cls, scope)
        if function is None:
            return
        inner = self.graph.module.scopes[function]
        for one in inner.parameters():
            given = argument(call, inner, one.arg, cls is not None)
            yield self._source(given, scope), (inner, one.arg)

    def _run_by(
        self, call: ast.Call, cls: ast.ClassDef | None, scope: Scope
    ) -> Function | None:
        """The function that a call names, or what makes objects of the class that it does."""
        function = self.graph.function_at(call.func, scope)
        if function is None and cls is not None:
            return self.graph.method(cls, "__init__")
        return function
