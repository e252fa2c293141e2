"""What became of each loop and each file: the facts behind the summary and the JSON report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

LoopStatus = Literal["migrated", "refused", "skipped"]
FileStatus = Literal["migrated", "unchanged", "refused", "failed"]

NoteKind = Literal["note", "done", "to do"]


class Alone(Enum):
    """Why files do not join a program that its loops ask for, by the reason to refuse these."""

    TOO_MUCH = "too-many-paths"
    NOT_NAMED = "callers-in-other-modules"


COMPLETED = "AMP completed: "
"""How the message of a loop begins that had AMP and lacked something."""


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
    kind: NoteKind = "note"
    """Something done, something left to the user, or something to know."""


@dataclass(frozen=True)
class Change:
    """Something that a rewrite changed, at a line of the original."""

    line: int
    kind: str
    """One word for scripts: `autocast`, `scaler`, `step`, `checkpoint`, `float32`, ..."""
    message: str
    why: str
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
    changes: tuple[Change, ...] = ()
    """For `migrated`: everything that differs from the original, in the order of its lines."""


@dataclass(frozen=True)
class Joint:
    """What became of the files of one program."""

    outcomes: Mapping[str, FileOutcome]
    """By path."""
    company: tuple[str, ...] = ()
    """Other files (resolved) together with which more of its loops might be migrated."""
