"""Cells of a notebook that do not parse, beside cells that train with what they set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from amp_migrate.outcome import LoopOutcome

_QUOTED = re.compile(r"`([^\W\d]\w*)")


class UnreadCell(Protocol):
    """What is known of such a cell."""

    @property
    def source(self) -> str:
        """Its text."""

    @property
    def error(self) -> str:
        """Why it does not parse, with the line."""


def named(loop: LoopOutcome, unread: Mapping[int, UnreadCell]) -> LoopOutcome:
    """A loop that is left alone for a name that such a cell sets: the cell is the reason."""
    if loop.status != "refused" or loop.message is None:
        return loop
    for name in _QUOTED.findall(loop.message):
        for number, cell in unread.items():
            if _sets(cell.source, name):
                message = (
                    f"`{name}` is set in cell {number}, which does not parse ({cell.error}), so "
                    "nothing shows what it is"
                )
                return replace(loop, reason="syntax", message=message)
    return loop


def _sets(source: str, name: str) -> bool:
    """`name = ...` and `other, name = ...` at the start of a line, as far as a text tells."""
    targets = rf"^[ \t]*[\w.,*() \t]*(?<![\w.]){name}(?!\w)[\w,*() \t]*=(?!=)"
    return re.search(targets, source, re.MULTILINE) is not None
