"""Where a handful of names are set and read, scope by scope (functions, classes and the module;
source order).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from amp_migrate.model.syntax.child_nodes import children

if TYPE_CHECKING:
    from collections.abc import Iterator

Conditions: TypeAlias = "frozenset[tuple[str, bool]]"
Kind = Literal["set", "read"]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


@dataclass(frozen=True)
class Mention:
    """One occurrence of a name; `conditions` are the `if` tests (with the branch taken) above it
    in its scope.
    """

    name: str
    kind: Kind
    position: tuple[int, int]
    conditions: Conditions


@dataclass
class Scope:
    """One function, class or module, filled while the tree is walked."""

    node: ast.AST
    parent: Scope | None
    mentions: list[Mention] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)
    """Names declared `global` or `nonlocal`."""
    given: set[str] = field(default_factory=set)
    """Of the module: names that some function sets through `global`."""
    children: list[Scope] = field(default_factory=list)

    def of(self, name: str, kind: Kind) -> list[Mention]:
        """The mentions of `name` of one kind, right in this scope."""
        return [
            mention
            for mention in self.mentions
            if mention.name == name and mention.kind == kind
        ]

    def binds(self, name: str) -> bool:
        """Whether the scope has a variable of that name of its own."""
        if name in self.given:
            return True
        return name not in self.foreign and bool(self.of(name, "set"))

    def sees(self, name: str) -> Iterator[Mention]:
        """Every mention of this scope's `name`, in nested scopes too."""
        yield from (
            mention for mention in self.mentions if mention.name == name
        )
        for child in self.children:
            if not child.binds(name) or isinstance(child.node, ast.ClassDef):
                yield from child.sees(name)

    def owner(self, name: str) -> Scope | None:
        """The scope whose variable a read of `name` in this scope finds; None when no scope binds
        it.
        """
        if self.binds(name):
            return self
        above = self.parent
        while above and (
            isinstance(above.node, ast.ClassDef) or not above.binds(name)
        ):
            above = above.parent
        return above

    def walk(self) -> Iterator[Scope]:
        """The scope itself and all nested ones, outer before inner."""
        yield self
        for child in self.children:
            yield from child.walk()


def build(tree: ast.Module, interest: frozenset[str]) -> Scope:
    """The module's scope, with the mentions of the names in `interest`."""
    top = Scope(tree, None)
    builder = _Builder(interest)
    builder.block(tree.body, top, frozenset())
    for scope in top.walk():
        top.given.update(
            name for name in scope.foreign if scope.of(name, "set")
        )
    return top


class _Builder:
    """One walk; comprehensions and lambdas count as part of the scope that holds them."""

    def __init__(self, interest: frozenset[str]) -> None:
        self.interest = interest

    def block(
        self, body: list[ast.stmt], scope: Scope, conditions: Conditions
    ) -> None:
        for statement in body:
            self.visit(statement, scope, conditions)

    def visit(
        self, node: ast.AST, scope: Scope, conditions: Conditions
    ) -> None:
        if isinstance(node, ast.Name):
            self.mention(
                (node.id, "read" if isinstance(node.ctx, ast.Load) else "set"),
                node,
                scope,
                conditions,
            )
        elif isinstance(node, _DEFINITIONS):
            self.definition(node, scope, conditions)
        elif isinstance(node, ast.If):
            self.branches(node, scope, conditions)
        else:
            if not isinstance(node, ast.expr):
                self.leaf(node, scope, conditions)
            for child in children(node):
                self.visit(child, scope, conditions)

    def leaf(self, node: ast.AST, scope: Scope, conditions: Conditions) -> None:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            scope.foreign.update(node.names)
        elif isinstance(node, ast.alias):
            self.mention(
                ((node.asname or node.name).partition(".")[0], "set"),
                node,
                scope,
                conditions,
            )
        elif isinstance(node, ast.arg):
            self.mention((node.arg, "set"), node, scope, conditions)
        elif (
            isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar))
            and node.name
        ):
            self.mention((node.name, "set"), node, scope, conditions)

    def mention(
        self,
        what: tuple[str, Kind],
        node: ast.AST,
        scope: Scope,
        conditions: Conditions,
    ) -> None:
        if what[0] in self.interest:
            position = (
                getattr(node, "lineno", 0),
                getattr(node, "col_offset", 0),
            )
            scope.mentions.append(Mention(*what, position, conditions))

    def definition(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
        scope: Scope,
        conditions: Conditions,
    ) -> None:
        self.mention((node.name, "set"), node, scope, conditions)
        inner = Scope(node, scope)
        scope.children.append(inner)
        for decorator in node.decorator_list:
            self.visit(decorator, scope, conditions)
        if isinstance(node, ast.ClassDef):
            for base in [*node.bases, *node.keywords]:
                self.visit(base, scope, conditions)
        else:
            self.signature(node.args, scope, inner, conditions)
        self.block(node.body, inner, frozenset())

    def signature(
        self,
        node: ast.arguments,
        outer: Scope,
        inner: Scope,
        conditions: Conditions,
    ) -> None:
        for default in [*node.defaults, *node.kw_defaults]:
            if default is not None:
                self.visit(default, outer, conditions)
        for argument in [
            *node.posonlyargs,
            *node.args,
            *node.kwonlyargs,
            node.vararg,
            node.kwarg,
        ]:
            if argument is not None:
                self.leaf(argument, inner, frozenset())

    def branches(
        self, node: ast.If, scope: Scope, conditions: Conditions
    ) -> None:
        self.visit(node.test, scope, conditions)
        taken = {(ast.dump(part), True) for part in _parts(node.test)}
        self.block(node.body, scope, conditions | taken)
        self.block(
            node.orelse, scope, conditions | {(ast.dump(node.test), False)}
        )


def _parts(test: ast.expr) -> list[ast.expr]:
    """What holds one by one where a test holds."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return test.values
    return [test]
