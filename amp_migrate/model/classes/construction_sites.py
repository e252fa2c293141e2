"""The calls that run an `__init__`: of its class and the heirs that have no other, of variables
and tables that hold one of these, and of an heir's own `__init__` that calls it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.passed_on import Passed, passes_rest_on
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Function, Scope, returned
from amp_migrate.model.syntax.substitution import made_call
from amp_migrate.model.values.tables import entries_of

if TYPE_CHECKING:
    from amp_migrate.model.calls.call_graph import CallGraph

Site: TypeAlias = "tuple[ast.Call, Scope, bool]"
"""A call, where it stands, and whether `self` is given by the receiver."""
_HOPS = 4


class ConstructionSites:
    """Answers for the classes of one program."""

    def __init__(self, graph: CallGraph) -> None:
        """`graph`: of the program."""
        self.graph = graph
        self.module = graph.module
        self._known: dict[tuple[Function, ast.ClassDef], list[Site]] = {}

    def of(
        self,
        init: Function,
        owner: ast.ClassDef,
    ) -> list[Site]:
        """The calls that run the `__init__` of a class. Asked about each part of each object."""
        key = init, owner
        if key not in self._known:
            self._known[key] = []  # of classes that derive from each other
            self._known[key] = list(dict.fromkeys(self._sites(init, owner)))
        return list(self._known[key])

    def _sites(
        self,
        init: Function,
        owner: ast.ClassDef,
    ) -> Iterator[Site]:
        """The same, found anew; some come twice."""
        for heir in self.graph.heirs(owner):
            own = self.graph.method(heir, "__init__")
            if own is init or own is None:
                yield from self._made(heir)
            elif own in heir.body:
                for call in self.module.scopes[own].calls:
                    if self._runs(call, init, owner, heir):
                        yield from self._through(call, own, heir)

    def _runs(
        self,
        call: ast.Call,
        init: Function,
        owner: ast.ClassDef,
        heir: ast.ClassDef,
    ) -> bool:
        """Whether a call in the `__init__` of an heir runs that of its base class `owner`."""
        if not _is_super(call):
            return _calls_base(call, owner)
        lineage = self.graph.lineage(heir)
        if any(len(one.bases) > 1 for one in lineage):
            return _calls_base(call, owner)  # the next may be any of them
        above = self.graph.method(lineage[1], "__init__")
        return _calls_base(call, owner) and above is init

    def _through(
        self, call: ast.Call, own: Function, heir: ast.ClassDef
    ) -> Iterator[Site]:
        """`super().__init__(net, *args, **kwargs)`, by what the constructor was given for them:
        a site for each call that makes an object.
        """
        scope = self.module.scopes[own]
        if not passes_rest_on(call, scope):
            yield call, scope, _is_super(call)
            return
        for outer, where, bound in self.of(own, heir):
            passed = Passed(outer, scope, bound)
            told = made_call(
                call.func, passed.positional(call), passed.keywords(call)
            )
            yield told, where, _is_super(call)

    def _made(self, cls: ast.ClassDef) -> Iterator[Site]:
        for call, scope in self.graph.constructions(cls):
            yield call, scope, True
        for call, scope in self._by_variable.get(cls, ()):
            yield call, scope, True

    @cached_property
    def _by_variable(self) -> dict[ast.ClassDef, list[tuple[ast.Call, Scope]]]:
        """`kind(...)` of `kind = Net if deep else Linear`, by each of the classes."""
        found: dict[ast.ClassDef, list[tuple[ast.Call, Scope]]] = {}
        for scope in self.module.scopes.values():
            for call in scope.calls:
                is_held = isinstance(call.func, (ast.Name, ast.Subscript))
                if is_held and not self._named(call.func, scope):
                    for cls in set(self._held(call.func, scope, _HOPS)):
                        found.setdefault(cls, []).append((call, scope))
        return found

    def _named(self, func: ast.expr, scope: Scope) -> bool:
        return (
            self.graph.class_named(func, scope) is not None
            or self.graph.function_at(func, scope) is not None
        )

    def _held(
        self, expr: ast.expr, scope: Scope, hops: int, index: int | None = None
    ) -> Iterator[ast.ClassDef]:
        """The classes that an expression, or what stands at a place of its tuple, may be."""
        if isinstance(expr, ast.Tuple) and index is not None:
            for one in expr.elts[index : index + 1]:
                yield from self._held(one, scope, hops)
        elif isinstance(expr, ast.IfExp):
            yield from self._held(expr.body, scope, hops, index)
            yield from self._held(expr.orelse, scope, hops, index)
        elif hops and isinstance(expr, ast.Subscript) and index is None:
            yield from self._in_table(expr.value, scope, hops)
        elif hops and isinstance(expr, ast.Call):
            function = self.graph.function_at(expr.func, scope)
            if function is not None:
                inner = self.module.scopes[function]
                for value in returned(function):
                    yield from self._held(value, inner, hops - 1, index)
        elif index is None:
            yield from self._of_name(expr, scope, hops)

    def _in_table(
        self, table: ast.expr, scope: Scope, hops: int
    ) -> Iterator[ast.ClassDef]:
        """`FACTORY[name]` of a table here or in the file that it is imported from."""
        dotted = dotted_name(table)
        if isinstance(table, ast.Dict):
            for value in table.values:
                yield from self._held(value, scope, hops - 1)
        elif dotted is not None:
            home = scope.lookup(dotted)
            here = (home, dotted) if home is not None else None
            for at in (here, self.module.elsewhere(dotted, scope)):
                for value in entries_of(*at) if at else ():
                    yield from self._held(value, at[0], hops - 1) if at else ()

    def _of_name(
        self, expr: ast.expr, scope: Scope, hops: int
    ) -> Iterator[ast.ClassDef]:
        cls = self.graph.class_named(expr, scope)
        if cls is not None:
            yield cls
        elif hops and isinstance(expr, ast.Name):
            home = scope.lookup(expr.id)
            for one in home.bindings[expr.id] if home is not None else ():
                if one.how == "assign" and one.value is not None:
                    yield from self._held(one.value, scope, hops - 1, one.index)


def _is_super(call: ast.Call) -> bool:
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Call)
        and dotted_name(func.value.func) == "super"
    )


def _calls_base(call: ast.Call, owner: ast.ClassDef) -> bool:
    """`super().__init__(...)`, `Base.__init__(self, ...)`."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "__init__":
        return False
    base = (dotted_name(func.value) or "").rpartition(".")[2]
    return _is_super(call) or base == owner.name
