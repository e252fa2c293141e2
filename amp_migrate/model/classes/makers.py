"""Classes as values: `Opt = getattr(torch.optim, name)`, tables of classes and of lambdas,
functions that return one, partial constructors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.classes.looked_up import module_searched
from amp_migrate.model.classes.searched_classes import searched_optimizer
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, returned
from amp_migrate.model.values.kinds import UNKNOWN, Kind, Value, library_kind

if TYPE_CHECKING:
    from amp_migrate.model.values.value_kinds import Values

_DEEP = 6
# Modules whose members of any name are of one kind.
_WHOLE = {"torch.optim": Kind.OPTIMIZER}


class Makers:
    """What calling a value makes, where the value is a class."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.module, self.graph = values.module, values.graph

    def made(self, call: ast.Call, scope: Scope) -> Value:
        """The instance that a call makes; every class that its callee may be counts."""
        found = [
            value._replace(origin=call)
            for value in self._instances(call.func, scope, _DEEP)
        ]
        if found:
            return self.values.join(found)
        return searched_optimizer(self.values, call, scope)

    def searched_for(
        self, call: ast.Call, scope: Scope, given: ast.expr, inner: Scope
    ) -> Value:
        """What a function gives to one of its calls where it makes it of a class that it searches
        in a module which that call names: `make(torch.optim, name, ...)`.
        """
        maker = given.func if isinstance(given, ast.Call) else None
        if isinstance(maker, ast.Name):
            maker = _only_value(maker.id, inner)
        searched = (
            module_searched(maker)
            if isinstance(maker, (ast.Call, ast.Subscript))
            else None
        )
        if not isinstance(searched, ast.Name):
            return UNKNOWN
        bound = [one.how for one in inner.bindings.get(searched.id, ())]
        named = (
            argument(call, inner, searched.id, inner.takes_receiver)
            if bound == ["parameter"]
            else None
        )
        canonical = self.module.canonical(named) if named is not None else None
        kind = _WHOLE.get(canonical or "")
        return UNKNOWN if kind is None else Value(kind, call, canonical)

    def _instances(
        self, maker: ast.expr, scope: Scope, deep: int
    ) -> Iterator[Value]:
        if deep == 0:
            return
        if isinstance(maker, ast.Lambda):
            made = self.values.of(maker.body, self.module.scopes[maker])
            yield from [made] if made else []
            return
        known = self._class(maker, scope)
        if known:
            yield known
            return
        for expr, where in self._sources(maker, scope):
            yield from self._instances(expr, where, deep - 1)

    def _class(self, maker: ast.expr, scope: Scope) -> Value:
        """An instance of the class that an expression names outright."""
        whole = _WHOLE.get(self._module_of(maker) or "")
        if whole is not None:
            return Value(whole, None, "torch.optim")
        canonical = self.module.canonical(maker)
        kind = (
            library_kind(canonical) if canonical is not None else Kind.UNKNOWN
        )
        if kind is not Kind.UNKNOWN:
            return Value(kind, None, canonical)
        cls = self.graph.class_named(maker, scope)
        if cls is not None:
            return self.values.instance(cls, None)
        abroad = self.values.abroad(maker, scope)
        if abroad is None or not isinstance(abroad[1], ast.ClassDef):
            return self._looked_up(maker, scope)
        kind = abroad[0].values.class_kind(abroad[1])
        return Value(kind, None, abroad[1].name, foreign=(abroad[0], abroad[1]))

    def _looked_up(self, maker: ast.expr, scope: Scope) -> Value:
        """One of the classes of a module of the project, where these are all of one kind."""
        searched = (
            module_searched(maker)
            if isinstance(maker, (ast.Call, ast.Subscript))
            else None
        )
        if searched is None:
            return UNKNOWN
        exported = self.values.reaching.imported.exported(searched, scope)
        kinds = {
            p.values.class_kind(c)
            for p, c in exported
            if isinstance(c, ast.ClassDef)
        }
        kinds -= {Kind.OTHER, Kind.UNKNOWN}
        return Value(kinds.pop()) if len(kinds) == 1 else UNKNOWN

    def _module_of(self, maker: ast.expr) -> str | None:
        """The library module that a class is looked up in."""
        if not isinstance(maker, (ast.Call, ast.Subscript)):
            return None
        searched = module_searched(maker)
        return self.module.canonical(searched) if searched is not None else None

    def _sources(
        self, maker: ast.expr, scope: Scope
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """The expressions that a maker may be the value of."""
        if isinstance(maker, ast.IfExp):
            yield from ((maker.body, scope), (maker.orelse, scope))
        elif isinstance(maker, ast.Subscript):
            yield from self._elements(maker.value, scope)
            yield from self.values.contents.expressions(maker, scope)
        elif isinstance(maker, ast.Call):
            yield from self._given_back(maker, scope)
        elif isinstance(maker, (ast.Name, ast.Attribute)):
            yield from self._held(maker, scope)

    def _held(
        self, name: ast.Name | ast.Attribute, scope: Scope
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """What is assigned to a name or to an attribute of `self`, or passed for a parameter."""
        dotted = dotted_name(name) or ""
        home = scope.lookup(dotted) if "." not in dotted else None
        if home is not None:
            yield from self.values.bindings.given(dotted, home)
            yield from self._default(dotted, home)
        for one in [home] if home is not None else self._family(dotted, scope):
            for binding in one.bindings.get(dotted, ()):
                if (
                    binding.how == "assign"
                    and binding.value is not None
                    and binding.index is None
                ):
                    known = binding.statement in self.module.parents
                    yield (
                        binding.value,
                        self.module.scope_of(binding.statement)
                        if known
                        else one,
                    )

    def _default(
        self, name: str, home: Scope
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """`def __init__(self, net, optimizer_class=torch.optim.Adam)`"""
        if isinstance(home.node, FUNCTIONS):
            found = default_of(home.node, name)
            if found is not None:
                yield found, home.parent or home

    def _family(self, dotted: str, scope: Scope) -> list[Scope]:
        """The classes that may set an attribute of `self`: this one, its bases and its heirs."""
        around = (
            self.graph.class_around(scope)
            if dotted.startswith("self.")
            else None
        )
        if around is None:
            return []
        classes = dict.fromkeys(
            [*self.graph.lineage(around), *self.graph.heirs(around)]
        )
        return [self.module.scopes[one] for one in classes]

    def _elements(
        self, table: ast.expr, scope: Scope
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """The values of a table in sight."""
        if isinstance(table, (ast.Dict, ast.List, ast.Tuple)):
            for value in (
                table.values if isinstance(table, ast.Dict) else table.elts
            ):
                yield value, scope
        elif isinstance(table, (ast.Name, ast.Attribute)):
            for held, where in self._held(table, scope):
                if not isinstance(held, (ast.Name, ast.Attribute)):
                    yield from self._elements(held, where)

    def _given_back(
        self, call: ast.Call, scope: Scope
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """What a call returns: a function in sight, `partial(cls)`, `table.get(name)`."""
        if (
            self.module.canonical(call.func) == "functools.partial"
            and call.args
        ):
            yield call.args[0], scope
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "get":
            yield from self._elements(call.func.value, scope)
        else:
            function = self.values.callee(call, scope)
            if function is not None:
                inner = self.module.scopes[function]
                yield from ((value, inner) for value in returned(function))


def _only_value(name: str, scope: Scope) -> ast.expr | None:
    """What a name of a body is assigned, once."""
    bindings = list(scope.bindings.get(name, ()))
    if len(bindings) != 1 or bindings[0].how != "assign":
        return None
    return bindings[0].value if bindings[0].index is None else None


__all__ = ["Makers"]
