"""What became of each loop and each file: the facts behind the summary and the JSON report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LoopStatus = Literal["migrated", "refused", "skipped"]
FileStatus = Literal["migrated", "unchanged", "refused", "failed"]


@dataclass(frozen=True)
class LoopOutcome:
    """One training loop: a scope that calls `backward`, and what was decided about it."""

    line: int
    scope: str
    status: LoopStatus
    reason: str | None = None
    message: str | None = None
    cell: int | None = None
    """In a notebook: the cell, 1-based among all cells; `line` is then the line in it."""


@dataclass(frozen=True)
class Note:
    """Something the user should know about a file, with its position."""

    line: int
    column: int
    message: str
    cell: int | None = None


@dataclass(frozen=True)
class FileOutcome:
    """One file. `output` is the whole new text where the file is migrated."""

    path: str
    status: FileStatus
    loops: tuple[LoopOutcome, ...] = ()
    notes: tuple[Note, ...] = ()
    output: str | None = None
    error: str | None = None
    """For `failed`: position, what is wrong and what to do."""
