"""The programs that are run as Python reads them: scripts, and notebooks as one module of cells.

A notebook's magics and shell commands are not run: strings stand for them, and nothing comes of
`files = !ls`.
"""

from __future__ import annotations

import importlib.util
import linecache
from pathlib import Path
from typing import Any

from amp_migrate.project.errors import SourceError
from amp_migrate.project.notebook import Notebook
from amp_migrate.project.notebook import decode as notebook
from amp_migrate.project.prefilter import is_notebook


def source(path: str | Path) -> str:
    """The text of a file, with line ends as Python has them. Raises ValueError for a notebook that
    cannot be read.
    """
    data = Path(path).read_bytes()
    if is_notebook(str(path)):
        try:
            return notebook(data).text
        except SourceError as error:
            raise ValueError(f"{path}: {error}") from None
    return importlib.util.decode_source(data)


def rewritten(path: str, before: bytes, after: bytes, encoding: str) -> str:
    """The text of new bytes for a file; that of a notebook with the marks of its old text."""
    if is_notebook(path):
        old: Notebook = notebook(before)
        new: Notebook = notebook(after)
        return new.text.replace(new.digest, old.digest)
    return after.decode(encoding).removeprefix("\ufeff")


def names_for(path: str) -> dict[str, Any]:
    """What a notebook finds bound; tracebacks show its cells' lines."""
    if not is_notebook(path):
        return {}
    text = source(path)
    linecache.cache[path] = (
        len(text),
        None,
        text.splitlines(keepends=True),
        path,
    )
    return {"get_ipython": lambda *_: [], "display": print}
