"""A tree of files by who imports whom, so that a loop's callers and helpers in other files can be
found.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path

from amp_migrate.patterns import pattern
from amp_migrate.project.import_paths import absolute_starts, by_search_path
from amp_migrate.regular_files import read_nearby

_IMPORT = pattern(
    (
        rb"^[ \t]*(?:from[ \t]+(?P<module>[.\w]+)[ \t]+import[ "
        rb"\t]*(?P<names>\([^)]*\)|[^\n#;]*)|import[ \t]+(?P<plain>[^\n#;]+))"
    ),
    re.MULTILINE,
)
_WORD = pattern(rb"[.\w]+")
# Literals first, here and in `_statements`, so that the search runs at the speed of a byte search.
_CALLED = pattern(rb"\.(\w+)[ \t]*\(")
_DEFINED = pattern(rb"def(?<!\wdef)[ \t]+(\w+)[ \t]*\(")


class Project:
    """Files by their resolved paths."""

    def __init__(
        self,
        imports: Mapping[str, tuple[str, ...]] | None = None,
        writable: Mapping[str, str] | None = None,
    ) -> None:
        """`imports`: the files of the tree that each file imports, as far as its text shows;
        `writable`: the files that may be rewritten, with the names that the user gave them. Others
        are only read.
        """
        self.imports = {} if imports is None else imports
        self.writable = {} if writable is None else writable

    @cached_property
    def top(self) -> Path | None:
        """The folder that holds all that may be rewritten."""
        folders = {Path(real).parent for real in self.writable}
        return Path(os.path.commonpath(folders)) if folders else None

    @cached_property
    def importers(self) -> dict[str, list[str]]:
        """The files that import each file."""
        found: dict[str, list[str]] = {}
        for file, imported in self.imports.items():
            for other in imported:
                found.setdefault(other, []).append(file)
        return found

    @cached_property
    def _methods(self) -> dict[bytes, list[str]]:
        """The files that call or define something, by its name."""
        found: dict[bytes, list[str]] = {}
        for file in dict.fromkeys([*self.imports, *self.writable]):
            data = read_nearby(file) or b""
            for name in {*_CALLED.findall(data), *_DEFINED.findall(data)}:
                found.setdefault(name, []).append(file)
        return found

    def with_method(self, name: str) -> list[str]:
        """The files of the tree that call or define a method of that name."""
        return list(self._methods.get(name.encode(), ()))

    @cached_property
    def _mentioning(self) -> dict[str, tuple[str, ...]]:
        return {}

    def mentioning(self, word: str) -> tuple[str, ...]:
        """The files of the tree whose text holds a word."""
        if word not in self._mentioning:
            wanted = word.encode()
            self._mentioning[word] = tuple(
                file
                for file in dict.fromkeys([*self.imports, *self.writable])
                if wanted in (read_nearby(file) or b"")
            )
        return self._mentioning[word]

    def alone(self, path: str) -> bool:
        """Whether no other file of the tree has to do with the one at `path`."""
        return path not in self.imports and path not in self.importers

    def users(self, path: str, *words: str) -> list[str]:
        """Files that import `path`, directly or through others, and hold all of `words`, sorted."""
        wanted = [
            re.compile(rb"(?<!\w)" + re.escape(word.encode()) + rb"(?!\w)")
            for word in words
        ]
        found, seen, waiting = set(), {path}, deque([path])
        while waiting:
            for file in self.importers.get(waiting.popleft(), ()):
                if file in seen:
                    continue
                seen.add(file)
                text = read_nearby(file) or b""
                if all(word.search(text) for word in wanted):
                    found.add(file)
                    waiting.append(file)
                elif file.endswith("__init__.py"):
                    waiting.append(
                        file
                    )  # `from .engine import *` names nothing
        return sorted(found)

    def helpers(self, path: str, most: int) -> list[str]:
        """Files that `path` imports, directly or through others, nearest first."""
        seen, waiting = {path: None}, deque([path])
        while waiting and len(seen) <= most:
            for file in self.imports.get(waiting.popleft(), ()):
                if file not in seen:
                    seen[file] = None
                    waiting.append(file)
        return list(seen)[1 : most + 1]

    def between(self, path: str, files: Iterable[str]) -> dict[str, None]:
        """The files on shortest ways of imports from `path` to `files`, the ends left out."""
        came: dict[str, str] = {path: path}
        waiting, wanted = deque([path]), set(files) - {path}
        while waiting and not wanted <= came.keys():
            here = waiting.popleft()
            for one in self.imports.get(here, ()):
                if one not in came:
                    came[one] = here
                    waiting.append(one)
        found: dict[str, None] = {}
        for file in files:
            step = came.get(file, path)
            while step != path:
                found[step] = None
                step = came[step]
        return found


class Index:
    """Collects who imports whom among files that are known by their resolved paths before they are
    read.
    """

    def __init__(self, known: Iterable[str]) -> None:
        # One string for each file, however many import it: a tree may have tens of thousands.
        self.known = {path: path for path in known}
        # Imports of what no file or folder here is called lead out of the tree.
        self._heads = frozenset(
            os.fsencode(part.removesuffix(".py"))
            for path in self.known
            for part in path.split("/")[-5:]
        )
        self._imports: dict[str, tuple[str, ...]] = {}
        self._folder, self._meant = "", dict[str, tuple[str, ...]]()
        self._stems: dict[str, list[str]] = {}
        for path in sorted(self.known):
            folder, _, name = path.rpartition("/")
            stem = (
                folder.rpartition("/")[2]
                if name == "__init__.py"
                else name.removesuffix(".py")
            )
            self._stems.setdefault(stem, []).append(path)

    def add(self, path: str, data: bytes) -> None:
        """Note what the bytes of the file at `path` import."""
        if path.endswith(".ipynb"):
            data = data.replace(b'"', b"\n").replace(b"\\n", b"\n")
        found = tuple(dict.fromkeys(self._imported(path, data)))
        if found:
            self._imports[path] = found

    def project(self, writable: Mapping[str, str]) -> Project:
        """The tree as far as it was added."""
        return Project(dict(self._imports), writable)

    def _imported(self, path: str, data: bytes) -> Iterator[str]:
        folder = path.rpartition("/")[0]
        if (
            folder != self._folder
        ):  # files of one folder import the same things; of all folders it would be much
            self._folder, self._meant = folder, {}
        for match in _statements(data):
            for name in _requested(match, self._heads):
                if name not in self._meant:
                    self._meant[name] = tuple(self._files(path, folder, name))
                yield from (file for file in self._meant[name] if file != path)

    def _files(self, path: str, folder: str, name: str) -> Iterator[str]:
        """The files that `name` may mean as a module for the files of `folder`, one of which is
        `path`.
        """
        file = _file(folder, name, self.known)
        stems = self._stems.get(name.rpartition(".")[2])
        if stems and (
            file is None or file.endswith("/__init__.py")
        ):  # a package's folder may be on the search path
            found = by_search_path(path, name, stems)
            if found and not found[1]:
                yield found[0]
        if file is not None:
            yield file


def _statements(data: bytes) -> Iterator[re.Match[bytes]]:
    """The import statements of a file, as far as a line begins with each."""
    at, end = data.find(b"import"), 0
    while at >= 0:
        line = data.rfind(b"\n", 0, at) + 1
        match = _IMPORT.match(data, line) if line >= end else None
        if match is not None:
            yield match
            end = match.end()
        at = data.find(b"import", max(at + 1, end))


def _requested(
    match: re.Match[bytes], heads: frozenset[bytes]
) -> Iterator[str]:
    """Dotted names that one import statement may mean a module by."""
    if match["plain"] is not None:
        for part in match["plain"].split(b","):
            word = _WORD.match(part.strip())
            if word and word[0].partition(b".")[0] in heads:
                yield word[0].decode("utf-8", "replace")
        return
    module = match["module"]
    if not module.startswith(b".") and module.partition(b".")[0] not in heads:
        return
    base = module.decode("utf-8", "replace")
    yield base
    joint = "" if base.endswith(".") else "."
    for part in match["names"].strip(b"() \t\r\n").split(b","):
        word = _WORD.match(part.strip())
        if word:
            yield f"{base}{joint}{word[0].decode('utf-8', 'replace')}"


def _file(folder: str, name: str, known: Mapping[str, str]) -> str | None:
    """The file that `name` means as a module, seen from `folder`."""
    inner = name.lstrip(".")
    level = len(name) - len(inner)
    inner = inner.replace(".", "/")
    for _ in range(level - 1):
        folder = folder.rpartition("/")[0]
    for start in (folder,) if level else _starts(folder):
        base = f"{start}/{inner}" if inner else str(start)
        for file in (
            (f"{base}.py", f"{base}/__init__.py")
            if inner
            else (f"{base}/__init__.py",)
        ):
            if file in known:
                return known[file]
    return None


@lru_cache(maxsize=4096)
def _starts(folder: str) -> tuple[str, ...]:
    return tuple(str(start) for start in absolute_starts(Path(folder)))


__all__ = ["Index", "Project"]
