"""What a body leaves in a name, apart from what it found there."""

from __future__ import annotations

from amp_migrate.model.syntax.module import Binding
from amp_migrate.records import NamedTuple


class Left(NamedTuple):
    """What a body leaves in a name, apart from what it found there."""

    bindings: tuple[Binding, ...]
    certain: bool
    complete: bool
    entry: bool
    """Whether the value that the body found may be there still."""
    proved: bool
    """Whether that value has been read since."""


class Found:
    """What has been found of it so far."""

    __slots__ = ("bindings", "certain", "complete", "entries")

    def __init__(self) -> None:
        self.bindings: dict[Binding, None] = {}
        self.certain = self.complete = True
        self.entries: set[bool] = set()
        """For each way that the value of the entry may have come, whether it was read there."""

    def add(self, part: Left, proved: bool) -> None:
        """What a call or an object leaves."""
        self.bindings |= dict.fromkeys(part.bindings)
        self.certain &= proved or part.certain
        self.complete &= part.complete

    def left(self) -> Left:
        """All of it."""
        return Left(
            tuple(self.bindings),
            self.certain,
            self.complete,
            entry=bool(self.entries),
            proved=self.entries == {True},
        )
