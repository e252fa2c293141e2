"""A function that needs a new parameter and is used as a value is given it wherever it may be
called: through variables, tables of functions, loops over them, and parameters of other functions.

What this cannot follow is a fault: the program would call the function without its parameter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Module, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.rewrite.proof.facts import Introduced

_PASSED_UP = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.BoolOp, ast.Starred)
_SAME_ITEMS = frozenset(
    {"zip", "enumerate", "list", "tuple", "iter", "reversed", "set", "dict"}
)
_ENDS = (
    ast.Compare,
    ast.Expr,
    ast.If,
    ast.While,
    ast.Assert,
    ast.FormattedValue,
    ast.UnaryOp,
)


def value_faults(
    program: Program, file: Module, introduced: Introduced
) -> Iterator[tuple[ast.expr, str]]:
    """The places of one file whose functions may be called without a parameter that the rewrite
    has added, and why.
    """
    for node in list(program.module.scopes) if introduced.parameters else ():
        if isinstance(node, FUNCTIONS) and program.scope(node).module is file:
            needed = _required(node) & introduced.parameters
            if needed:
                yield from _Uses(program, node, needed).faults()


class _Uses:
    """The uses of one function as a value."""

    def __init__(
        self, program: Program, function: Function, needed: set[str]
    ) -> None:
        self.program = program
        self.module = program.module
        self.function = function
        self.needed = needed
        self._held: set[tuple[Scope, str]] = set()
        """The variables that may hold it."""
        self._waiting: list[ast.expr] = []
        """Expressions that do, whose uses are still to be followed."""

    def faults(self) -> Iterator[tuple[ast.expr, str]]:
        """Where it may be called without what it needs."""
        self._waiting += self._named()
        for node in self._waiting:  # grows while it is read
            yield from self._used(node)

    def _named(self) -> Iterator[ast.expr]:
        owner = self.program.scope(self.function).owner
        if owner is None:
            yield from self.program.graph.mentions(self.function)
            return
        for node in list(self.module.parents):
            if (
                isinstance(node, ast.Attribute)
                and node.attr == self.function.name
            ):
                holder = self.program.values.of(
                    node.value, self.module.scope_of(node)
                )
                cls = holder.cls if not self._is_called(node) else None
                if cls is not None:
                    if (
                        self.program.graph.method(cls, node.attr)
                        is self.function
                    ):
                        yield node

    def _is_called(self, node: ast.expr) -> bool:
        parent = self.module.parents[node]
        return isinstance(parent, ast.Call) and parent.func is node

    def _used(self, node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
        """What becomes of an expression that holds the function, or a table of it."""
        parent = self.module.parents[node]
        if isinstance(parent, ast.Call) and parent.func is node:
            if missing := self._missing(parent):
                yield (
                    parent,
                    f"it may call `{self.function.name}`, which needs `{missing}`",
                )
        elif isinstance(parent, ast.keyword):
            call = self.module.parents[parent]
            yield from (
                self._given(node, call)
                if isinstance(call, ast.Call)
                else self._lost(node)
            )
        elif isinstance(parent, ast.Call):
            yield from self._given(node, parent)
        elif self._passes_up(node, parent):
            assert isinstance(parent, ast.expr)
            self._waiting.append(parent)
        elif isinstance(parent, ast.Attribute):
            if self._is_called(
                parent
            ):  # `table.get(name)`; `step.__name__` is no function
                call = self.module.parents[parent]
                assert isinstance(call, ast.expr)
                self._waiting.append(call)
        elif isinstance(parent, ast.Return):
            yield from self._given_back(node)
        elif isinstance(parent, ast.arguments):
            self._stands_for(node, parent)
        elif not isinstance(parent, _ENDS) and not self._is_kept(node, parent):
            yield from self._lost(node)

    def _stands_for(self, node: ast.expr, parameters: ast.arguments) -> None:
        """`def fit(model, step=train_step)`"""
        function = self.module.parents[parameters]
        assert isinstance(function, (*FUNCTIONS, ast.Lambda))
        inner = self.module.scopes[function]
        for one in inner.parameters():
            if default_of(function, one.arg) is node:
                self._hold(inner, one.arg)

    def _given_back(self, node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
        """`return step`: whoever calls the function that gives it back holds it then."""
        scope, graph = self.module.scope_of(node), self.program.graph
        factory = scope.node
        if (
            not isinstance(factory, FUNCTIONS)
            or scope.owner is not None
            or factory.decorator_list
            or graph.escapes(factory)
        ):
            yield from self._lost(node)
        else:
            calls = [site.call for site in graph.sites(factory)]
            self._waiting += [one for one in calls if one not in self._waiting]

    def _passes_up(self, node: ast.expr, parent: ast.AST) -> bool:
        if isinstance(parent, ast.Subscript):
            return parent.value is node
        if isinstance(parent, ast.IfExp):
            return parent.test is not node
        return isinstance(parent, _PASSED_UP)

    def _is_kept(self, value: ast.expr, parent: ast.AST) -> bool:
        """Whether it is given to variables, whose reads are followed in their turn."""
        if isinstance(parent, ast.Subscript):
            return True  # the key of a table
        home = self.module.scope_of(value)
        names = [
            name
            for name, bindings in home.bindings.items()
            if any(
                one.value is value and one.statement is parent
                for one in bindings
            )
        ]
        one_target = getattr(parent, "target", None)
        targets = getattr(parent, "targets", None) or [one_target]
        parts = [
            part
            for target in targets
            if target is not None
            for part in nodes_in(target)
        ]
        stored = [
            one
            for one in parts
            if isinstance(getattr(one, "ctx", None), ast.Store)
        ]
        if not names or any(
            isinstance(one, (ast.Attribute, ast.Subscript)) for one in stored
        ):
            return False
        for name in names:
            self._hold(home, name)
        return True

    def _hold(self, scope: Scope, name: str) -> None:
        home = scope.lookup(name) or scope
        if (home, name) in self._held:
            return
        self._held.add((home, name))
        for node in list(self.module.parents):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id in self.module.local_names(name):
                    around = self.module.scope_of(node)
                    own = node.id == name and around.lookup(name) is home
                    if own or self.module.elsewhere(node.id, around) == (
                        home,
                        name,
                    ):
                        self._waiting.append(node)

    def _given(
        self, node: ast.expr, call: ast.Call
    ) -> Iterator[tuple[ast.expr, str]]:
        """It is handed to another function: with its parameter, or to one in sight."""
        if not self._missing(call):
            return
        if isinstance(call.func, ast.Name) and call.func.id in _SAME_ITEMS:
            self._waiting.append(call)
            return
        scope = self.module.scope_of(call)
        callee = self.program.values.callee(call, scope)
        inner = self.program.scope(callee) if callee is not None else None
        bound = inner is not None and inner.takes_receiver
        names = [
            one.arg
            for one in (inner.parameters() if inner is not None else ())
            if inner is not None
            and argument(call, inner, one.arg, bound) is node
        ]
        if inner is None or not names:
            yield from self._lost(node)
        for name in names:
            assert inner is not None
            self._hold(inner, name)

    def _missing(self, call: ast.Call) -> str | None:
        given = {one.arg for one in call.keywords}
        return None if None in given else min(self.needed - given, default=None)

    def _lost(self, node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
        yield (
            node,
            f"whoever is handed `{self.function.name}` may call it without its `scaler`",
        )


def _required(function: Function) -> set[str]:
    own = function.args
    positional = [*own.posonlyargs, *own.args]
    needed = {
        one.arg for one in positional[: len(positional) - len(own.defaults)]
    }
    pairs = zip(own.kwonlyargs, own.kw_defaults, strict=True)
    return needed | {one.arg for one, default in pairs if default is None}
