"""Several files as one module: names lead from file to file, and byte spans of different files
never meet.

What a module answers about a node is asked of the file that holds the node. The text of the program
is the texts of its files, one after the other, so that a span says which file it lies in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property

from amp_migrate.model.files.neighbours import Neighbours
from amp_migrate.model.naming.import_reads import is_import
from amp_migrate.model.naming.names import Imports, imports_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.model.syntax.node_tables import Blocks, Parents, Scopes
from amp_migrate.model.syntax.span import Span
from amp_migrate.project import nearby
from amp_migrate.project.import_paths import (
    by_search_path,
    candidates,
    resolved,
)

_HOPS = 6
_NEVER_OURS = ("torch.", "numpy.", "os.", "torchvision.")


class LinkedProgram(Program):
    """Several files with everything that can be asked about them as one program."""

    module: Linked

    def __init__(
        self, texts: Mapping[str, str], neighbours: bool = True
    ) -> None:
        """`texts` by path; see `Linked`."""
        self._index(Linked(texts, neighbours))


class Linked(Module):
    """The files of one program, parsed and indexed together."""

    def __init__(
        self, texts: Mapping[str, str], neighbours: bool = True
    ) -> None:
        """`texts` by path, the first one foremost; `neighbours`: look at other files on disk, too.

        Raises SyntaxError (with its file's name), ValueError or RecursionError.
        """
        self.parents, self.scopes = Parents(), Scopes()
        self.block_lists = Blocks()
        self._canonical = {}
        self._files = tuple(
            self._file(text, path, neighbours) for path, text in texts.items()
        )
        self.own_scopes = tuple(self.scopes.values())
        first = self._files[0]
        self.path, self.tree, self.root, self.neighbours = (
            first.path,
            first.tree,
            first.root,
            first.neighbours,
        )
        self.text = "".join(file.text for file in self._files)
        self.identifiers = set().union(
            *(file.identifiers for file in self._files)
        )
        self.import_statements = [
            statement
            for file in self._files
            for statement in file.import_statements
        ]
        self._found: dict[tuple[int, str, int], tuple[Scope, str] | None] = {}
        self._by_path = {resolved(file.path): file for file in self._files}

    def _file(self, text: str, path: str, neighbours: bool) -> Module:
        try:
            return Module(
                text, path, Neighbours(path) if neighbours else None, self
            )
        except SyntaxError as error:
            error.filename = path
            raise

    @property
    def files(self) -> tuple[Module, ...]:
        """The files, in the order given."""
        return self._files

    @cached_property
    def imports(self) -> Imports:
        """What any of the files imports."""
        return imports_of(self.import_statements)

    @cached_property
    def _bases(self) -> dict[int, int]:
        """Where the text of each file begins, by the id of its module."""
        bases, offset = {}, 0
        for file in self._files:
            bases[id(file)] = offset
            offset += (
                len(file.text.encode()) + 1
            )  # a byte between two files belongs to neither
        return bases

    def file_of(self, node: ast.AST) -> Module | None:
        """The file that holds `node`; None for a node made on the way."""
        while not isinstance(node, ast.Module):
            up = self.parents.get(node)
            if up is None:
                return None
            node = up
        return self.scopes[node].module

    def canonical(self, expr: ast.expr) -> str | None:
        """The library name behind an expression, by the imports of its file."""
        if expr not in self._canonical:
            file = self.file_of(expr)
            self._canonical[expr] = (
                file.named(expr) if file else self.imports.canonical(expr)
            )
        return self._canonical[expr]

    def span(self, node: ast.stmt | ast.expr) -> Span:
        """Byte range of `node` in the joined text."""
        file = self.file_of(node)
        assert file is not None
        own, base = file.span(node), self._bases[id(file)]
        return Span(own.start + base, own.end + base)

    def place(self, span: Span) -> tuple[Module, int]:
        """The file that a span lies in, and where that file begins."""
        file = max(
            (f for f in self._files if self._bases[id(f)] <= span.start),
            key=lambda f: self._bases[id(f)],
        )
        return file, self._bases[id(file)]

    def source(self, node: ast.AST) -> str:
        """The text of `node` as written."""
        file = self.file_of(node)
        return file.source(node) if file is not None else ast.unparse(node)

    # -- names that lead from file to file

    def elsewhere(
        self, dotted: str, scope: Scope, node: ast.expr | None = None
    ) -> tuple[Scope, str] | None:
        """Where an imported name is bound: the scope of another file, and the name there."""
        return next(self.everywhere(dotted, scope, node), None)

    def everywhere(
        self, dotted: str, scope: Scope, node: ast.expr | None = None
    ) -> Iterator[tuple[Scope, str]]:
        """All places where import statements of a file find a name, in the order of these
        statements.
        """
        head, _, rest = dotted.partition(".")
        if not is_import(head, scope, node):
            return
        for name in _origins(scope.module, head, rest):
            found = self._find(scope.module, name, _HOPS)
            if found is not None:
                yield found

    def imported_by(
        self, statement: ast.Import | ast.ImportFrom, dotted: str, file: Module
    ) -> tuple[Scope, str] | None:
        """Where a name is bound that one import statement of a file brings; `elsewhere` knows the
        first of several (in the branches of an `if`) alone.
        """
        head, _, rest = dotted.partition(".")
        origin = imports_of([statement]).names.get(head)
        if origin is None:
            return None
        return self._find(file, f"{origin}.{rest}" if rest else origin, _HOPS)

    def _find(
        self, file: Module, canonical: str, hops: int
    ) -> tuple[Scope, str] | None:
        """Follow a dotted name through re-exports; None where it leaves the program. Remembered:
        names come again.
        """
        key = (id(file), canonical, hops)
        if key not in self._found:
            self._found[key] = self._search(file, canonical, hops)
        return self._found[key]

    def _search(
        self, file: Module, canonical: str, hops: int
    ) -> tuple[Scope, str] | None:
        if hops == 0 or canonical.startswith(_NEVER_OURS):
            return None
        for path, attributes in candidates(file.path, canonical):
            target = self._by_path.get(path)
            if (
                len(attributes) != 1
                if target is not None
                else nearby.changed(path) is None
            ):
                continue
            found = (
                self._bound(target, attributes[0], hops)
                if target is not None
                else None
            )
            if attributes and _lacks(path, target, attributes[0]):
                continue  # another file of that name is meant
            if found is not None or not path.endswith("/__init__.py"):
                return found
        other = by_search_path(file.path, canonical, self._by_path)
        return (
            self._bound(self._by_path[other[0]], other[1][0], hops)
            if other and len(other[1]) == 1
            else None
        )

    def _bound(
        self, file: Module, name: str, hops: int
    ) -> tuple[Scope, str] | None:
        bindings = file.root.bindings.get(name)
        if bindings and bindings[-1].how != "import":
            return file.root, name
        onward = (
            _origins(file, name, "")
            if bindings
            else [f"{star}.{name}" for star in file.imports.stars]
        )
        return next(
            (
                found
                for origin in onward
                if (found := self._find(file, origin, hops - 1))
            ),
            None,
        )

    @cached_property
    def _renamed(self) -> dict[str, set[str]]:
        """Local names by the last part of what they stand for."""
        found: dict[str, set[str]] = {}
        for file in self._files:
            for local, origin in file.imports.names.items():
                found.setdefault(origin.rpartition(".")[2], set()).add(local)
        return found

    def local_names(self, name: str) -> frozenset[str]:
        """The names by which the files of this program call something that is defined as `name`."""
        return frozenset((name, *self._renamed.get(name, ())))


def _lacks(path: str, file: Module | None, name: str) -> bool:
    """Whether a module, of the program or beside it, has nothing of that name, nor may get it from
    another one.
    """
    if file is not None:
        bound = name in file.root.bindings
        return not bound and not file.imports.stars
    text = nearby.text_of(path) or b""
    return name.encode() not in text and b"import *" not in text


def _origins(file: Module, head: str, rest: str) -> Iterator[str]:
    """The dotted names that a name of a file may stand for."""
    origin = file.imports.names.get(head)
    tail = f".{rest}" if rest else ""
    if origin is not None:
        yield f"{origin}{tail}"
        yield from file.imports.otherwise(f"{head}{tail}")
    else:
        for star in file.imports.stars:
            yield (
                f"{star}.{head}{tail}"
                if not star.endswith(".")
                else f"{star}{head}{tail}"
            )
