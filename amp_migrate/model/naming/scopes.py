"""The names that a module, function, class or lambda binds."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.plain_functions import is_plain

if TYPE_CHECKING:
    from amp_migrate.model.syntax.module import Module

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode: TypeAlias = ast.Module | Function | ast.ClassDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Binding:
    """One place where a name (or `self.attribute`) gets a value."""

    __slots__ = ("how", "index", "statement", "value")

    def __init__(
        self,
        statement: ast.AST,
        value: ast.expr | None,
        how: str,
        index: int | None = None,
    ) -> None:
        """`value`: the right-hand side; the iterable for a loop target; None for a parameter, an
        import or a definition. `how`: `assign`, `for`, `with`, `augmented`, `parameter`, `import`,
        `def` or `walrus`. `index`: the position in the unpacked value (`a, b = f()`).
        """
        self.statement, self.value = statement, value
        self.how, self.index = how, index


class Stored:
    """One thing that is put into a container: `x[key] = value`, `x.append(value)`."""

    __slots__ = ("key", "statement", "value")

    def __init__(
        self, statement: ast.AST, key: ast.expr | None, value: ast.expr
    ) -> None:
        self.statement, self.key, self.value = statement, key, value


class Scope:
    """A module, function, class or lambda, and the names that it binds."""

    def __init__(
        self,
        node: ScopeNode,
        parent: Scope | None,
        module: Module,
        qualname: str,
    ) -> None:
        self.node, self.parent = node, parent
        self.module, self.qualname = module, qualname
        self.bindings: dict[str, list[Binding]] = {}
        self.outer: set[str] = set()
        """Names declared `global` or `nonlocal`."""
        self.calls: list[ast.Call] = []
        self.stored: dict[str, list[Stored]] = {}
        """What is put into containers, by their names; those of `self.x` are kept in the class."""

    @property
    def root(self) -> Scope:
        """The scope of the file."""
        return self.module.root

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, (*FUNCTIONS, ast.Lambda))

    @cached_property
    def owner(self) -> Scope | None:
        """The class of a method."""
        return (
            self.parent
            if self.parent and isinstance(self.parent.node, ast.ClassDef)
            else None
        )

    @cached_property
    def self_name(self) -> str | None:
        """The first parameter of a method, usually `self`."""
        if self._is_marked("staticmethod") or self._is_marked("classmethod"):
            return None
        return None if self._is_plain else self._first

    @property
    def _is_plain(self) -> bool:
        """Whether a function of a class is called as a static one is."""
        owner = self.owner.node if self.owner is not None else None
        return (
            self._first is not None
            and isinstance(owner, ast.ClassDef)
            and isinstance(self.node, FUNCTIONS)
            and is_plain(self.module, owner, self.node, self._first)
        )

    @cached_property
    def class_name(self) -> str | None:
        """The first parameter of a class method, usually `cls`."""
        return self._first if self._is_marked("classmethod") else None

    @property
    def takes_receiver(self) -> bool:
        """Whether what a method is called on is its first argument."""
        return self.self_name is not None or self.class_name is not None

    def _is_marked(self, mark: str) -> bool:
        """Whether a function has a decorator of that plain name."""
        return isinstance(self.node, FUNCTIONS) and any(
            isinstance(one, ast.Name) and one.id == mark
            for one in self.node.decorator_list
        )

    @property
    def _first(self) -> str | None:
        if self.owner is None or not isinstance(self.node, FUNCTIONS):
            return None
        positional = [*self.node.args.posonlyargs, *self.node.args.args]
        return positional[0].arg if positional else None

    @property
    def body(self) -> list[ast.stmt]:
        return [] if isinstance(self.node, ast.Lambda) else self.node.body

    def parameters(self) -> list[ast.arg]:
        """All parameters but `*args` and `**kwargs`."""
        if not isinstance(self.node, (*FUNCTIONS, ast.Lambda)):
            return []
        return [
            *self.node.args.posonlyargs,
            *self.node.args.args,
            *self.node.args.kwonlyargs,
        ]

    def lookup(self, name: str) -> Scope | None:
        """The scope that binds `name` as seen from here; class bodies are not seen from their
        methods.
        """
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.bindings and name not in scope.outer:
                return scope
            scope = scope.parent
        return None
