"""How files and places are named to people; of its own, since every start of `lint` needs it and little else does."""

from __future__ import annotations

import os


def shown(path: str | os.PathLike[str]) -> str:
    """The name of `path` for people and for JSON: bytes that are no text are escaped."""
    return os.fspath(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def place(path: str, line: int, column: int | None = None, cell: int | None = None) -> str:
    """`path:line:column`, as editors and terminals link it; in a notebook `path:cell 3:line:column`."""
    parts = [path, *([] if cell is None else [f"cell {cell}"]), str(line), *([] if column is None else [str(column)])]
    return ":".join(parts)
