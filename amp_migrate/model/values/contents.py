"""What containers hold: literals, `dict(g=..., d=...)`, and what is stored under a key or appended,
through names, attributes, parameters, and functions that return one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
    returned_at,
)
from amp_migrate.model.syntax.queries import is_none
from amp_migrate.model.values.keys import literal, may_be
from amp_migrate.model.values.kinds import UNKNOWN, Value
from amp_migrate.model.values.written_items import (
    BY_ATTRIBUTE,
    last_name,
    literal_items,
)
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.values.value_kinds import Values


class Item(NamedTuple):
    """One thing in a container."""

    key: ast.expr | str | None
    value: Value


class _Part(NamedTuple):
    """What makes a container, or one thing that is put into it."""

    expr: ast.expr
    scope: Scope
    is_maker: bool = True
    key: ast.expr | None = None
    home: Program | None = None
    """The other file that it stands in."""


class Contents:
    """Answers for the containers of one program."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.module, self.graph = values.module, values.graph
        self._known: dict[tuple[str | None, Scope], tuple[_Part, ...]] = {}

    def under(
        self, container: ast.expr, key: ast.expr | str | None, scope: Scope
    ) -> Value:
        """What may be found in a container under a key, any where none is told."""
        wanted = literal(key)
        found = [
            item.value
            for item in self._items(container, scope)
            if may_be(item.key, key)
        ]
        passed = self._passed(container, wanted, scope)
        found += [self.values.of(one, where) for one, where in passed]
        # Whatever nothing is known of may be there, and under a key that varies anything else.
        is_told = (
            found
            and all(found)
            and (wanted is not None or len({v.kind for v in found}) == 1)
        )
        return self.values.join(found) if is_told else UNKNOWN

    def held(self, container: ast.expr, scope: Scope) -> list[Value]:
        """Everything that is known to be in a container."""
        return [
            item.value for item in self._items(container, scope) if item.value
        ]

    def attribute(self, expr: ast.Attribute, scope: Scope) -> Value:
        """`optims.generator`, where `optims` is a mapping that is read by attributes."""
        if not self.module.identifiers & BY_ATTRIBUTE:
            return UNKNOWN
        makers = (
            part.expr
            for part in self._parts(expr.value, scope)
            if part.is_maker
        )
        is_one = any(last_name(maker) in BY_ATTRIBUTE for maker in makers)
        return self.under(expr.value, expr.attr, scope) if is_one else UNKNOWN

    def _items(self, container: ast.expr, scope: Scope) -> Iterator[Item]:
        for part in self._parts(container, scope):
            items = (
                literal_items(part.expr)
                if part.is_maker
                else [(part.key, part.expr)]
            )
            for key, expr in items:
                if not is_none(expr):  # nothing is done with that
                    yield Item(key, self._value(part, expr))

    def _value(self, part: _Part, expr: ast.expr) -> Value:
        if part.home is None:
            return self.values.of(expr, part.scope)
        value = part.home.values.of(expr, part.scope)
        return value.abroad(part.home)

    def _parts(self, expr: ast.expr, scope: Scope) -> tuple[_Part, ...]:
        """What makes a container, and what is put into it under any of its names."""
        if not isinstance(expr, (ast.Name, ast.Attribute)):
            return tuple(self.made(expr, scope, set()))
        place = (dotted_name(expr), scope)
        if place not in self._known:
            self._known[place] = ()  # for a name that leads back to itself
            self._known[place] = tuple(self.made(expr, scope, set()))
        return self._known[place]

    def made(
        self, expr: ast.expr, scope: Scope, seen: set[object]
    ) -> Iterator[_Part]:
        """The same, but for the names and functions that were `seen` on the way."""
        if isinstance(expr, (ast.Dict, ast.List, ast.Tuple)):
            yield _Part(expr, scope)
        elif isinstance(expr, ast.Call):
            yield _Part(expr, scope)
            yield from self._given_back(expr, None, scope, seen)
        elif isinstance(expr, (ast.Name, ast.Attribute)):
            for home, name in self._homes(expr, scope):
                if (home, name) not in seen:
                    seen.add((home, name))
                    yield from self._held(home, name, seen)
        elif isinstance(expr, ast.Subscript) and expr not in seen:
            seen.add(expr)
            for value, where in self.expressions(expr, scope, seen):
                yield from self.made(value, where, seen)

    def expressions(
        self,
        entry: ast.Subscript,
        scope: Scope,
        seen: set[object] | None = None,
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """What is written in this program for `config["optimizer"]`, or passed by that name for
        `kwargs["optimizer"]`.
        """
        wanted = literal(entry.slice)
        for part in (
            self.made(entry.value, scope, set(seen or ()))
            if wanted is not None
            else ()
        ):
            items = (
                literal_items(part.expr)
                if part.is_maker
                else [(part.key, part.expr)]
            )
            for key, expr in items if part.home is None else ():
                if literal(key) == wanted:
                    yield expr, part.scope
        yield from self._passed(entry.value, wanted, scope)

    def spread(
        self, call: ast.Call, name: str, scope: Scope
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """What `**options` gives to a parameter, under its name."""
        for one in (k.value for k in call.keywords if k.arg is None):
            entry = ast.Subscript(one, ast.Constant(name), ast.Load())
            yield from self.expressions(entry, scope)

    def _passed(
        self, mapping: ast.expr, wanted: object, scope: Scope
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """What callers pass under a name that `**kwargs` takes."""
        home = (
            scope.lookup(mapping.id) if isinstance(mapping, ast.Name) else None
        )
        function = home.node if home is not None else None
        taken = function.args.kwarg if isinstance(function, FUNCTIONS) else None
        if (
            isinstance(mapping, ast.Name)
            and taken is not None
            and taken.arg == mapping.id
        ):
            assert isinstance(function, FUNCTIONS)
            for site in self.graph.runs(function):
                given = (k.value for k in site.call.keywords if k.arg == wanted)
                yield from ((one, site.scope) for one in given)

    def _given_back(
        self, call: ast.Call, index: int | None, scope: Scope, seen: set[object]
    ) -> Iterator[_Part]:
        """What a call returns, as a whole or as one part of a tuple."""
        for function in self.values.callees(call, scope):
            if (function, index) not in seen:
                seen.add((function, index))
                for value in _returned(function, index):
                    yield from self.made(
                        value, self.module.scopes[function], seen
                    )
        home, there = self.values.abroad(call.func, scope) or (None, None)
        if (
            home is not None
            and isinstance(there, FUNCTIONS)
            and (there, index) not in seen
        ):
            seen.add((there, index))
            for value in _returned(there, index):
                for part in home.values.contents.made(
                    value, home.scope(there), seen
                ):
                    yield (
                        part
                        if part.home is not None
                        else part._replace(home=home)
                    )

    def _held(
        self, home: Scope, name: str, seen: set[object]
    ) -> Iterator[_Part]:
        for one in home.stored.get(name, ()):
            yield _Part(
                one.value, self._around(one.statement, home), False, one.key
            )
        for binding in home.bindings.get(name, ()):
            value, index = binding.value, binding.index
            if (
                isinstance(value, ast.Call)
                and index is not None
                and binding.how == "assign"
            ):
                where = self._around(binding.statement, home)
                yield from self._given_back(value, index, where, seen)
            for expr, where in self._bound(binding, name, home):
                yield from self.made(expr, where, seen)

    def _homes(
        self, expr: ast.Name | ast.Attribute, scope: Scope
    ) -> list[tuple[Scope, str]]:
        """The scopes that bind a name, or the classes that may set an attribute of `self`."""
        dotted = dotted_name(expr) or ""
        head, _, rest = dotted.partition(".")
        if not rest:
            home = scope.lookup(head)
            return [(home, head)] if home is not None else []
        if "." in rest:
            return []
        cls = (
            self.values.of(expr.value, scope).cls
            if isinstance(expr, ast.Attribute)
            else None
        )
        if cls is None:
            return [(scope, dotted)]
        family = dict.fromkeys(
            [*self.graph.lineage(cls), *self.graph.heirs(cls)]
        )
        return [(self.module.scopes[one], f"self.{rest}") for one in family]

    def _bound(
        self, binding: Binding, name: str, home: Scope
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """The expressions that a binding gives a name."""
        value, where = binding.value, self._around(binding.statement, home)
        if binding.how == "parameter":
            yield from self.values.given(name, home)
        elif (
            value is not None
            and binding.how == "assign"
            and binding.index is None
        ):
            yield value, where

    def _around(self, node: ast.AST, home: Scope) -> Scope:
        return (
            self.module.scope_of(node) if node in self.module.parents else home
        )


def _returned(function: Function, index: int | None) -> list[ast.expr]:
    return returned(function) if index is None else returned_at(function, index)
