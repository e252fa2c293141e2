"""Where the paths through a block lead, and what happens on them."""

from __future__ import annotations

import ast
from typing import Protocol

from amp_migrate.protocol.frames import Frame
from amp_migrate.protocol.paths import Path
from amp_migrate.records import NamedTuple


class Ends:
    """Where the paths through a block lead."""

    __slots__ = ("breaks", "continues", "next", "returns")

    def __init__(
        self,
        next: list[Path] | None = None,  # noqa: A002 - as in the text
        breaks: list[Path] | None = None,
        continues: list[Path] | None = None,
        returns: list[Path] | None = None,
    ) -> None:
        self.next = [] if next is None else next
        self.breaks = [] if breaks is None else breaks
        self.continues = [] if continues is None else continues
        self.returns = [] if returns is None else returns

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
