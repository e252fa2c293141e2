"""One module as its syntax tree with what a tree lacks: parents, byte spans, blocks and scopes."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.edits import Span
from amp_migrate.model.scoping import ScopeBuilder, child_fields
from amp_migrate.names import Imports, imports_of

if TYPE_CHECKING:
    from amp_migrate.model.neighbours import Neighbours

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode: TypeAlias = ast.Module | Function | ast.ClassDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NESTED = (*FUNCTIONS, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, eq=False)
class Binding:
    """One place where a name (or `self.attribute`) gets a value."""

    statement: ast.AST
    value: ast.expr | None
    """The right-hand side; the iterable for a loop target; None for a parameter, an import or a definition."""
    how: str
    """`assign`, `for`, `with`, `augmented`, `parameter`, `import`, `def` or `walrus`."""
    index: int | None = None
    """Position in the unpacked value (`a, b = f()`)."""


@dataclass(eq=False)
class Scope:
    """A module, function, class or lambda, and the names that it binds."""

    node: ScopeNode
    parent: Scope | None
    module: Module
    qualname: str
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    """Names declared `global` or `nonlocal`."""
    calls: list[ast.Call] = field(default_factory=list)

    @property
    def root(self) -> Scope:
        """The scope of the file."""
        return self.module.root

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, (*FUNCTIONS, ast.Lambda))

    @property
    def owner(self) -> Scope | None:
        """The class of a method."""
        return self.parent if self.parent and isinstance(self.parent.node, ast.ClassDef) else None

    @property
    def self_name(self) -> str | None:
        """The first parameter of a method, usually `self`."""
        if self.owner is None or not isinstance(self.node, FUNCTIONS):
            return None
        if any(isinstance(d, ast.Name) and d.id in ("staticmethod", "classmethod") for d in self.node.decorator_list):
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
        return [*self.node.args.posonlyargs, *self.node.args.args, *self.node.args.kwonlyargs]

    def lookup(self, name: str) -> Scope | None:
        """The scope that binds `name` as seen from here; class bodies are not seen from their methods."""
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.bindings and name not in scope.outer:
                return scope
            scope = scope.parent
        return None


class Module:
    """The parsed text of one file."""

    def __init__(self, text: str, path: str, neighbours: Neighbours | None = None, whole: Module | None = None) -> None:
        """Parse `text` (no byte order mark); `neighbours` finds what it imports, `whole` holds the program it is a file of.

        Raises SyntaxError, ValueError (NUL bytes) or RecursionError.
        """
        self.text = text
        self.path = path
        self.neighbours = neighbours
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the program's escapes and comparisons, which are not our business
            self.tree = ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = whole.parents if whole else {}
        self.scopes: dict[ast.AST, Scope] = whole.scopes if whole else {}
        self.block_lists: dict[ast.stmt, list[ast.stmt]] = whole.block_lists if whole else {}
        self._canonical: dict[ast.expr, str | None] = {}
        self.identifiers: set[str] = set()
        self.import_statements: list[ast.Import | ast.ImportFrom] = []
        self.root = Scope(self.tree, None, self, "<module>")
        self.scopes[self.tree] = self.root
        ScopeBuilder(self).build()

    @property
    def files(self) -> tuple[Module, ...]:
        """The files of the program, itself alone where it is one file."""
        return (self,)

    @cached_property
    def imports(self) -> Imports:
        return imports_of(self.import_statements)

    def elsewhere(self, dotted: str, scope: Scope) -> tuple[Scope, str] | None:
        """Where a name that a file of this program imports is bound: the scope of another file of it, and the name there."""
        return None

    def local_names(self, name: str) -> frozenset[str]:
        """The names by which the files of this program call something that is defined as `name`."""
        return frozenset((name,))

    def canonical(self, expr: ast.expr) -> str | None:
        """The library name behind an expression of this module, remembered."""
        if expr not in self._canonical:
            self._canonical[expr] = self.imports.canonical(expr)
        return self._canonical[expr]

    def span(self, node: ast.stmt | ast.expr) -> Span:
        """Byte range of `node` in the UTF-8 text."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        starts = self._starts
        return Span(starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset)

    @cached_property
    def _starts(self) -> list[int]:
        starts, offset = [0], 0
        for line in self.text.encode().splitlines(
            keepends=True
        ):  # bytes: split at LF, CRLF and CR alone, as Python does
            offset += len(line)
            starts.append(offset)
        return starts

    def place(self, span: Span) -> tuple[Module, int]:
        """The file that a span of this program lies in, and where that file begins."""
        return self, 0

    def line(self, number: int) -> str:
        """The text of a line, 1-based, without its end."""
        return self._lines[number - 1] if number <= len(self._lines) else ""

    @cached_property
    def _lines(self) -> list[str]:
        return [line.decode() for line in self.text.encode().splitlines()]  # as Python splits lines, see _starts

    def source(self, node: ast.AST) -> str:
        """The text of `node` as written."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which `node` is evaluated."""
        while True:
            node = self.parents[node]
            scope = self.scopes.get(node)
            if scope is not None:
                return scope

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement around (or at) `node`."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parents of `node`, innermost first, the module last."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement_around(self, statement: ast.stmt) -> ast.stmt | None:
        """The compound statement (or definition) that holds `statement`; None at module level."""
        parent = self.parents[statement]
        while not isinstance(parent, ast.stmt):
            if parent not in self.parents:
                return None
            parent = self.parents[parent]
        return parent

    def block_of(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of siblings that holds `statement`."""
        return self.block_lists[statement]


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists directly inside a compound statement or module."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for case in getattr(node, "cases", ()):
        yield case.body


def shallow(node: ast.AST) -> tuple[ast.AST, ...]:
    """`node` and what is evaluated with it, in source order, without nested functions and classes.

    The answer is kept on the node: the same statements are asked about again and again.
    """
    known: tuple[ast.AST, ...] | None = node.__dict__.get("_shallow")
    if known is None:
        known = _flattened(node)
        node.__dict__["_shallow"] = known
    return known


def _flattened(node: ast.AST) -> tuple[ast.AST, ...]:
    found: list[ast.AST] = []
    stack = [node]
    while stack:
        here = stack.pop()
        found.append(here)
        children: list[ast.AST] = []
        for name in child_fields(here):
            value = getattr(here, name, None)
            if isinstance(value, list):
                children += [c for c in value if isinstance(c, ast.AST) and not isinstance(c, _NESTED)]
            elif isinstance(value, ast.AST) and not isinstance(value, _NESTED):
                children.append(value)
        children.reverse()
        stack += children
    return tuple(found)


def names_read(node: ast.AST) -> set[str]:
    """Names loaded anywhere in `node`."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
