"""Why a loop is left alone: a reason that `explain` knows, a position, and a sentence that
teaches.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.planner.half_safety.naming import Unnamed


def what_was_read(program: Program) -> str:
    """How a message calls the text that an analysis has seen: `this file`, `these 3 files`."""
    count = len(program.module.files)
    return "this file" if count == 1 else f"these {count} files"


def place_of(program: Program, node: ast.AST) -> str:
    """`models/base.py:12`: where a node of the program stands, by the name its file was given."""
    file = program.module.file_of(node) or program.module
    return f"{file.path}:{getattr(node, 'lineno', 1)}"


def file_seen_from(program: Program, other: Program) -> str:
    """The path of another program's file, from the folder of this one."""
    folder = Path(program.module.path).absolute().parent
    return os.path.relpath(other.module.path, folder)


class Refusal(Exception):
    """A loop that cannot be rewritten safely. Raised by any part of the planner, caught where the
    loop is planned.
    """

    def __init__(
        self,
        reason: str,
        node: ast.AST,
        message: str,
        files: tuple[str, ...] = (),
        *,
        above: bool = False,
        unnamed: tuple[Unnamed, ...] = (),
    ) -> None:
        """`files`: other files of the project in whose company the loop may be migrated; `above`:
        those of its callers are among them; `unnamed`: it may be once these have names.
        """
        self.above = above
        self.unnamed = unnamed
        super().__init__(message)
        self.files = files
        self.reason = reason
        self.node = node
        self.line: int = getattr(node, "lineno", 1)
        self.message = message


class Skip(Refusal):
    """A loop that is none of the migrator's business (already AMP, no optimizer, CPU only)."""
