"""Which files are the program: the script and the modules of its project that it imports, found
without running it.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.runtime.sources import source

_FOREIGN = {"site-packages", "dist-packages", ".venv", "venv", "node_modules"}


def program_files(start: Path, roots: Sequence[Path]) -> list[Path]:
    """`start` and the files below `roots` that it imports, directly or not, anywhere in their
    text.
    """
    found: dict[Path, None] = {}
    waiting = [start.resolve()]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = None
        waiting.extend(
            file for file in _imported(path, roots) if file not in found
        )
    return list(found)


def module_file(name: str, root: Path) -> Path | None:
    """The file of the module or package `name` (for a package its `__main__` if there is one)
    below `root`.
    """
    base = root.joinpath(*name.split("."))
    for candidate in (
        base.with_name(base.name + ".py"),
        base / "__main__.py",
        base / "__init__.py",
    ):
        if candidate.is_file():
            return candidate
    return None


def _imported(path: Path, roots: Sequence[Path]) -> Iterator[Path]:
    try:
        tree = ast.parse(source(path))
    except (OSError, SyntaxError, ValueError):
        return
    for node in nodes_in(tree):
        for names, bases in _requests(node, path, roots):
            for base in bases:
                yield from _files(base, names)


def _requests(
    node: ast.AST, path: Path, roots: Sequence[Path]
) -> Iterator[tuple[list[str], Sequence[Path]]]:
    """Dotted names that an import asks for, and the folders where they may begin."""
    if isinstance(node, ast.Import):
        yield from (([alias.name], roots) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        prefix = f"{node.module}." if node.module else ""
        bases = (
            roots
            if node.level == 0
            else [path.parents[node.level - 1]]
            if node.level <= len(path.parents)
            else []
        )
        yield (
            [node.module or "", *(prefix + alias.name for alias in node.names)],
            bases,
        )


def _files(base: Path, names: list[str]) -> Iterator[Path]:
    for name in filter(None, names):
        place = base
        for part in name.split("."):
            place = place / part
            for file in (
                place.with_name(place.name + ".py"),
                place / "__init__.py",
            ):
                if file.is_file() and not _FOREIGN.intersection(file.parts):
                    yield Path(os.path.realpath(file))
