"""Functions that are called through a variable, a table or a parameter, where every use of it is in
sight.

`LOOPS = {"plain": train, "mixup": train_mixup}`, `step = train if flag else train_mixup`,
`fit(train, ...)`: the calls that reach them, and the functions that share those calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.calls.held_functions import held_function
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
)
from amp_migrate.model.syntax.queries import is_none

_READERS = {"get", "__getitem__", "pop"}

Table: TypeAlias = Literal["", "mapping", "sequence"]
"""What a value is that holds functions; nothing where it is the function itself."""


@dataclass(frozen=True)
class Followed:
    """Calls that reach a function by way of a value."""

    sites: tuple[CallSite, ...]
    peers: tuple[Function, ...]
    factories: tuple[Function, ...] = ()
    """Functions that give it back: who calls these calls it."""


class _LostError(Exception):
    """A use of the value that cannot be followed."""


def follow(program: Program, function: Function) -> Followed | None:
    """The calls of `function` through values; None where one of its uses cannot be followed."""
    walk = _Walk(program)
    try:
        walk.all_of(function)
    except _LostError:
        return None
    return Followed(
        tuple(walk.sites.values()),
        tuple(p for p in walk.peers if p is not function),
        tuple(walk.factories),
    )


class _Walk:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.sites: dict[ast.Call, CallSite] = {}
        self.peers: dict[Function, None] = {}
        self._waiting: list[Function] = []
        self._variables: set[tuple[int, str]] = set()
        self.factories: dict[Function, None] = {}

    def all_of(self, function: Function) -> None:
        """Follow a function and those that it shares calls with. Raises _LostError."""
        self._waiting.append(function)
        while self._waiting:
            peer = self._waiting.pop()
            if peer in self.peers:
                continue
            if self.program.scope(peer).owner is not None:
                raise _LostError
            self.peers[peer] = None
            for node in self._mentions(peer):
                self._value(node, "")

    def _mentions(self, function: Function) -> Iterator[ast.expr]:
        """Where the function is named other than to call it."""
        module = self.program.module
        for node in list(module.parents):
            if not isinstance(
                node, (ast.Name, ast.Attribute)
            ) or not isinstance(node.ctx, ast.Load):
                continue
            if (
                node.id if isinstance(node, ast.Name) else node.attr
            ) not in module.local_names(function.name):
                continue
            parent = module.parents[node]
            if isinstance(parent, ast.Call) and parent.func is node:
                continue
            if (
                self.program.graph.function_at(node, module.scope_of(node))
                is function
            ):
                yield node

    def _peer(
        self,
        expr: ast.expr,
    ) -> None:
        """Another value in the same place must be a function in sight, too."""
        if isinstance(expr, ast.IfExp):
            self._peer(expr.body)
            self._peer(expr.orelse)
            return
        scope = self.program.module.scope_of(expr)
        found = self.program.graph.function_at(expr, scope)
        if found is None and isinstance(expr, ast.Name):
            if self._is_followed(expr.id, scope):
                return
            found = held_function(self.program.graph, expr, scope)
        if found is None:
            raise _LostError
        self._waiting.append(found)

    def _value(self, node: ast.expr, table: Table) -> None:
        """Follow an expression that holds the function, or a table of it, to where it is called."""
        parent = self.program.module.parents[node]
        scope = self.program.module.scope_of(node)
        if isinstance(parent, ast.Call) and parent.func is node and not table:
            self.sites[parent] = CallSite(parent, scope, bound=False)
        elif (
            isinstance(parent, ast.Subscript) and parent.value is node and table
        ):
            self._value(parent, "")
        elif (
            isinstance(parent, ast.Attribute)
            and table
            and parent.attr in (*_READERS, "keys", "values", "items")
        ):
            self._table_method(parent)
        elif isinstance(parent, (ast.Dict, ast.List, ast.Tuple)) and not table:
            self._elements(parent)
            is_mapping = isinstance(parent, ast.Dict)
            self._value(parent, "mapping" if is_mapping else "sequence")
        elif isinstance(parent, ast.IfExp) and parent.test is not node:
            self._peer(parent)
            self._value(parent, table)
        elif (
            isinstance(parent, ast.Assign)
            and len(parent.targets) == 1
            and isinstance(parent.targets[0], ast.Name)
        ):
            self._variable(parent.targets[0].id, scope, table)
        elif isinstance(parent, (ast.Call, ast.keyword)):
            self._passed(node, parent, scope, table)
        elif isinstance(parent, ast.arguments) and not table:
            self._stands_for(node, parent)
        elif isinstance(parent, ast.Return) and not table:
            self._given_back(scope)
        elif table == "sequence" and isinstance(parent, ast.For):
            self._each(parent, scope)
        elif not (table and isinstance(parent, (ast.Compare, ast.For))):
            raise _LostError  # else the keys of a mapping

    def _given_back(self, scope: Scope) -> None:
        """`return step_fn`: what each call of the factory gives is followed."""
        factory = scope.node
        graph = self.program.graph
        if not isinstance(factory, FUNCTIONS) or scope.owner is not None:
            raise _LostError
        if factory.decorator_list or graph.escapes(factory):
            raise _LostError
        if factory in self.factories:
            return
        self.factories[factory] = None
        for value in returned(factory):
            self._peer(value)
        for site in graph.sites(factory):
            self._value(site.call, "")

    def _elements(self, display: ast.Dict | ast.List | ast.Tuple) -> None:
        """What a display holds goes wherever the display goes."""
        for element in (
            display.values if isinstance(display, ast.Dict) else display.elts
        ):
            self._peer(element)

    def _each(
        self,
        loop: ast.For,
        scope: Scope,
    ) -> None:
        """`for step in (warmup, train): step(model, optimizer)`"""
        if not isinstance(loop.target, ast.Name):
            raise _LostError
        self._variable(loop.target.id, scope, "")

    def _table_method(self, method: ast.Attribute) -> None:
        call = self.program.module.parents[method]
        if (
            not isinstance(call, ast.Call)
            or call.func is not method
            or method.attr in ("values", "items")
        ):
            raise _LostError
        if method.attr in _READERS:
            for default in call.args[1:]:
                self._peer(default)
            self._value(call, "")

    def _variable(self, name: str, scope: Scope, table: Table) -> None:
        home = scope.lookup(name)
        if home is None or (id(home), name) in self._variables:
            return
        self._variables.add((id(home), name))
        for binding in home.bindings[name]:
            self._shares(binding, home, table)
        for node in self._reads(name, home):
            self._value(node, table)

    def _shares(self, binding: Binding, home: Scope, table: Table) -> None:
        """What else a variable is given shares its calls."""
        value = binding.value
        if value is None or binding.index is not None:
            raise _LostError
        if table or binding.how == "for":
            if isinstance(value, (ast.Dict, ast.List, ast.Tuple)):
                self._elements(value)
            elif not (
                isinstance(value, ast.Name)
                and self._is_followed(value.id, home)
            ):
                raise _LostError
        elif binding.how != "assign":
            raise _LostError
        elif not isinstance(value, (ast.Subscript, ast.Call)):
            self._peer(value)

    def _is_followed(self, name: str, scope: Scope) -> bool:
        return (id(scope.lookup(name)), name) in self._variables

    def _reads(self, name: str, home: Scope) -> Iterator[ast.Name]:
        module = self.program.module
        for node in list(module.parents):
            if (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and node.id in module.local_names(name)
            ):
                scope = module.scope_of(node)
                if (
                    node.id == name
                    and scope.lookup(name) is home
                    or module.elsewhere(node.id, scope) == (home, name)
                ):
                    yield node

    def _passed(
        self,
        node: ast.expr,
        parent: ast.Call | ast.keyword,
        scope: Scope,
        table: Table,
    ) -> None:
        """An argument: the function's parameter, at all of its calls."""
        callee = self._called_with(parent, scope)
        sites = self.program.graph.sites(callee)
        inner = self.program.scope(callee)
        name = _parameter_given(node, inner, sites)
        self._parameter(callee, name, table)

    def _stands_for(self, node: ast.expr, parameters: ast.arguments) -> None:
        """`def fit(model, step=train_step)`, which somebody calls."""
        graph, function = (
            self.program.graph,
            self.program.module.parents[parameters],
        )
        if not isinstance(function, FUNCTIONS) or graph.escapes(function):
            raise _LostError
        if not graph.sites(function):
            raise _LostError  # whoever does may give another one
        names = (one.arg for one in self.program.scope(function).parameters())
        found = (one for one in names if default_of(function, one) is node)
        self._parameter(function, next(found), "")

    def _parameter(self, function: Function, name: str, table: Table) -> None:
        """A parameter, of what all calls give for it or leave it to be."""
        inner = self.program.scope(function)
        if (id(inner), name) in self._variables:
            return
        self._variables.add((id(inner), name))
        default = default_of(function, name)
        if default is not None and not is_none(default):
            self._peer(default)
        for site in self.program.graph.sites(function):
            given = argument(site.call, inner, name, site.bound)
            if table or given is None and default is None:
                raise _LostError
            if given is not None:
                self._peer(given)
        for read in self._reads(name, inner):
            self._value(read, table)

    def _called_with(
        self, parent: ast.Call | ast.keyword, scope: Scope
    ) -> Function:
        """The function in sight that gets an argument."""
        call: ast.AST = parent
        if isinstance(parent, ast.keyword):
            call = self.program.module.parents[parent]
        if not isinstance(call, ast.Call):
            raise _LostError
        callee = self.program.values.callee(call, scope)
        if callee is None or self.program.graph.escapes(callee):
            raise _LostError
        return callee


def _parameter_given(
    node: ast.expr, inner: Scope, sites: list[CallSite]
) -> str:
    """The one parameter that `node` is given for."""
    names = [
        one.arg
        for one in inner.parameters()
        if any(argument(s.call, inner, one.arg, s.bound) is node for s in sites)
    ]
    if len(names) != 1:
        raise _LostError
    return names[0]
