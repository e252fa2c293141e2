"""Loops that were left alone for one and the same reason, told together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from amp_migrate.display import escaped, place
from amp_migrate.outcome import FileOutcome, LoopOutcome
from amp_migrate.report import pages

_AT = re.compile(r"^(cell \d+, )?line \d+: ")


@dataclass(frozen=True)
class Group:
    """Loops of one status, with one reason and the same words about it."""

    status: str
    reason: str
    message: str
    """Without the line that each has in front."""
    loops: tuple[tuple[str, LoopOutcome], ...]
    """With the path of the file."""

    @property
    def places(self) -> list[str]:
        """Where they are, and in which function."""
        return [place_of(path, loop) for path, loop in self.loops]


def place_of(path: str, loop: LoopOutcome) -> str:
    """`path:line in scope`."""
    return f"{place(path, loop.line, cell=loop.cell)} in {escaped(loop.scope)}"


def left_alone(outcomes: Iterable[FileOutcome], status: str) -> list[Group]:
    """The groups of one status, the largest first."""
    found: dict[tuple[str, str], list[tuple[str, LoopOutcome]]] = {}
    for outcome in outcomes:
        for loop in outcome.loops:
            if loop.status == status and outcome.error is None:
                words = _AT.sub("", loop.message or "")
                found.setdefault((loop.reason or "", words), []).append(
                    (outcome.path, loop)
                )
    groups = [Group(status, *key, tuple(loops)) for key, loops in found.items()]
    return sorted(groups, key=lambda group: -len(group.loops))


def way_out(groups: Sequence[Group]) -> dict[str, str]:
    """By reason, the first words of its page on what to do, where the page says it."""
    ways: dict[str, str] = {}
    for reason in dict.fromkeys(
        group.reason for group in groups if group.reason
    ):
        try:
            words = pages.find(reason).way_out
        except KeyError:
            continue
        if words:
            ways[reason] = words
    return ways
