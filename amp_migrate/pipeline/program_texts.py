"""The texts of a program's files, each read from disk once."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate import regular_files
from amp_migrate.display import shown
from amp_migrate.project.errors import SourceError, reading
from amp_migrate.project.module_graph import Project
from amp_migrate.project.text import Decoded, decode

if TYPE_CHECKING:
    from amp_migrate.project.notebook import Notebook


@dataclass(frozen=True)
class ProgramText:
    """A file with its text, as it is on disk and as Python reads it."""

    path: str
    data: bytes
    source: Decoded | Notebook


def read_text(path: str) -> ProgramText:
    """Read a file. Raises SourceError where that is not possible."""
    try:
        data = regular_files.read(path)
    except OSError as error:
        raise reading(error) from None
    return ProgramText(shown(path), data, decode(data, path))


def readable(real: str, project: Project) -> ProgramText | None:
    """Read a file that joins others; None where it cannot be read, which is told where it is asked
    for itself.
    """
    try:
        text = read_text(project.writable.get(real, real))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text.source.text)
    except (SourceError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return text


def resolved_name(path: str) -> str:
    """One name for a file, whichever links lead to it."""
    return str(Path(path).resolve())
