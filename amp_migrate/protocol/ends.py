"""Where the paths through a block lead, and what happens on them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from amp_migrate.protocol.frames import Frame
from amp_migrate.protocol.paths import Path


@dataclass
class Ends:
    """Where the paths through a block lead."""

    next: list[Path] = field(default_factory=list)
    breaks: list[Path] = field(default_factory=list)
    continues: list[Path] = field(default_factory=list)
    returns: list[Path] = field(default_factory=list)

    def leave(self, other: Ends) -> None:
        """Take over the ends of an inner block that leave this one."""
        self.breaks += other.breaks
        self.continues += other.continues
        self.returns += other.returns


class Here(NamedTuple):
    """An event on a path."""

    node: ast.AST
    path: Path
    frame: Frame


class Listener(Protocol):
    """Told of what happens on the paths."""

    def on(self, here: Here) -> list[Path]:
        """The paths behind an event, or behind a call of code out of sight."""

    def left(self, statement: ast.stmt, path: Path) -> None:
        """A block is left early."""
