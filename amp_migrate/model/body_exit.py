"""What a body leaves in a name, apart from what it found there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from amp_migrate.model.syntax import Binding


class Left(NamedTuple):
    """What a body leaves in a name, apart from what it found there."""

    bindings: tuple[Binding, ...]
    certain: bool
    complete: bool
    entry: bool
    """Whether the value that the body found may be there still."""
    proved: bool
    """Whether that value has been read since."""


@dataclass
class Found:
    """What has been found of it so far."""

    bindings: dict[Binding, None] = field(default_factory=dict)
    certain: bool = True
    complete: bool = True
    entries: set[bool] = field(default_factory=set)
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
