"""One module as its syntax tree with what a tree lacks: parents, byte spans, blocks and scopes."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from amp_migrate.model.naming.names import Imports, dotted_name, imports_of
from amp_migrate.model.naming.scopes import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    ScopeNode,
)
from amp_migrate.model.naming.scoping import ScopeBuilder
from amp_migrate.model.syntax.child_nodes import child_fields, children
from amp_migrate.model.syntax.node_tables import Blocks, Parents, Scopes
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.syntax.span import Span
from amp_migrate.project.import_paths import resolved

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Neighbours

__all__ = [
    "FUNCTIONS",
    "LOOPS",
    "Binding",
    "Function",
    "Module",
    "Scope",
    "ScopeNode",
    "blocks",
    "heads",
    "names_read",
    "returned",
    "shallow",
]

LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NESTED = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
_SCOPED = (*_NESTED, ast.Module)
_NOT_YET: Any = object()


_MODULES = ("torch.cuda.amp", "torch.amp", "torch.cpu.amp")
"""Modules of which a name can be a short form."""


class Module:
    """The parsed text of one file."""

    def __init__(
        self,
        text: str,
        path: str,
        neighbours: Neighbours | None = None,
        whole: Module | None = None,
    ) -> None:
        """Parse `text` (no byte order mark); `neighbours` finds what it imports, `whole` holds the
        program it is a file of.

        Raises SyntaxError, ValueError (NUL bytes) or RecursionError.
        """
        self.text = text
        self.path = path
        self.neighbours = neighbours
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # about the program's escapes and comparisons, which are not our business
            self.tree = ast.parse(text)
        self.parents: Parents = whole.parents if whole else Parents()
        self.scopes: Scopes = whole.scopes if whole else Scopes()
        self.block_lists: Blocks = whole.block_lists if whole else Blocks()
        self._canonical: dict[ast.expr, str | None] = {}
        self.identifiers: set[str] = set()
        self.import_statements: list[ast.Import | ast.ImportFrom] = []
        self.root = Scope(self.tree, None, self, "<module>")
        others = len(self.scopes)
        self.scopes[self.tree] = self.root
        ScopeBuilder(self).build()
        self.own_scopes = tuple(islice(self.scopes.values(), others, None))
        """Those of this file, outer before inner."""

    @property
    def files(self) -> tuple[Module, ...]:
        """The files of the program, itself alone where it is one file."""
        return (self,)

    @cached_property
    def paths(self) -> frozenset[str]:
        """The files of the program, as they are known on disk."""
        return frozenset(resolved(file.path) for file in self.files)

    def file_of(self, node: ast.AST) -> Module | None:
        """The file that holds `node`; None for a node made on the way."""
        return self

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the file, outer before inner."""
        return tuple(nodes_in(self.tree))

    @cached_property
    def imports(self) -> Imports:
        return imports_of(self.import_statements)

    def elsewhere(
        self, dotted: str, scope: Scope, node: ast.expr | None = None
    ) -> tuple[Scope, str] | None:
        """Where a name that a file of this program imports is bound: the scope of another file of
        it, and the name there. Read at `node`, it may be bound to something else further down.
        """
        return None

    def everywhere(
        self, dotted: str, scope: Scope, node: ast.expr | None = None
    ) -> Iterator[tuple[Scope, str]]:
        """All such places, where several import statements bring the name."""
        return iter(())

    def imported_by(
        self, statement: ast.Import | ast.ImportFrom, dotted: str, file: Module
    ) -> tuple[Scope, str] | None:
        """The same of a name that one import statement of a file brings."""
        return None

    def local_names(self, name: str) -> frozenset[str]:
        """The names by which the files of this program call something that is defined as `name`."""
        return frozenset((name,))

    def canonical(self, expr: ast.expr) -> str | None:
        """The library name behind an expression of this module, remembered."""
        found: str | None = self._canonical.get(expr, _NOT_YET)
        if found is _NOT_YET:
            found = self._canonical[expr] = self.named(expr)
        return found

    def named(self, expr: ast.expr) -> str | None:
        """The same, by the imports of this file and the names that it gives to modules of them."""
        found = self.imports.canonical(expr)
        if found is None and self._modules:
            head, dot, rest = (dotted_name(expr) or "").partition(".")
            if head in self._modules and dot:
                return f"{self._modules[head]}.{rest}"
        return found

    @cached_property
    def _modules(self) -> dict[str, str]:
        """`amp = torch.cuda.amp` at the top of a file: names that hold nothing but one module."""
        found: dict[str, str] = {}
        for name, bindings in self.root.bindings.items():
            values = [one.value for one in bindings if one.how == "assign"]
            given = [
                one
                for one in values
                if one is not None and not isinstance(one, ast.Constant)
            ]
            origin = self.imports.canonical(given[0]) if given else None
            is_one = len(given) == 1 and len(values) == len(bindings)
            if is_one and origin in _MODULES:
                found[name] = origin
        return found

    def span(self, node: ast.stmt | ast.expr) -> Span:
        """Byte range of `node` in the UTF-8 text."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        starts = self._starts
        return Span(
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )

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
        return [
            line.decode() for line in self.text.encode().splitlines()
        ]  # as Python splits lines, see _starts

    def source(self, node: ast.AST) -> str:
        """The text of `node` as written."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which `node` is evaluated."""
        while True:
            node = self.parents[node]
            if isinstance(node, _SCOPED):
                return self.scopes[node]

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
            if isinstance(parent, ast.Module):
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


def heads(statement: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a compound statement outside of its blocks."""
    for child in children(statement):
        if isinstance(child, ast.ExceptHandler):
            if child.type is not None:
                yield child.type
        elif isinstance(child, ast.match_case):
            if child.guard is not None:
                yield child.guard
        elif not isinstance(child, ast.stmt):
            yield child


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
                children += [
                    c
                    for c in value
                    if isinstance(c, ast.AST) and not isinstance(c, _NESTED)
                ]
            elif isinstance(value, ast.AST) and not isinstance(value, _NESTED):
                children.append(value)
        children.reverse()
        stack += children
    return tuple(found)


def returned(function: Function) -> list[ast.expr]:
    """The expressions that a function returns; kept on the node, as `shallow` keeps its answer."""
    known: list[ast.expr] | None = function.__dict__.get("_returned")
    if known is None:
        own = (one for one in function.body if not isinstance(one, _NESTED))
        nodes = (n for statement in own for n in shallow(statement))
        known = [
            n.value
            for n in nodes
            if isinstance(n, ast.Return) and n.value is not None
        ]
        function.__dict__["_returned"] = known
    return known


def yielded(function: Function) -> list[ast.expr]:
    """What a generator hands out, one by one."""
    own = (one for one in function.body if not isinstance(one, _NESTED))
    nodes = (n for statement in own for n in shallow(statement))
    return [
        n.value
        for n in nodes
        if isinstance(n, ast.Yield) and n.value is not None
    ]


def is_abstract(function: Function) -> bool:
    """A method that only says that others define it."""
    last, before = function.body[-1], function.body[:-1]
    marked = any(
        getattr(one, "attr", getattr(one, "id", "")) == "abstractmethod"
        for one in function.decorator_list
    )
    says_nothing = marked and isinstance(last, (ast.Expr, ast.Pass))
    return (isinstance(last, ast.Raise) or says_nothing) and all(
        isinstance(s, ast.Expr) for s in before
    )


def fields_of(cls: ast.ClassDef, name: str) -> list[ast.expr]:
    """The annotations of `name: type`, a field without a value."""
    declared = (
        one
        for one in cls.body
        if isinstance(one, ast.AnnAssign) and one.value is None
    )
    named = (
        one
        for one in declared
        if isinstance(one.target, ast.Name) and one.target.id == name
    )
    return [one.annotation for one in named]


def returned_at(function: Function, index: int) -> list[ast.expr]:
    """What a function returns as one part of a tuple."""
    tuples = [one for one in returned(function) if isinstance(one, ast.Tuple)]
    return [one.elts[index] for one in tuples if index < len(one.elts)]


def names_read(node: ast.AST) -> set[str]:
    """Names loaded anywhere in `node`."""
    return {
        n.id
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
