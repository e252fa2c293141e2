"""Which lines of two versions of a text are the same."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

Opcode: TypeAlias = tuple[str, int, int, int, int]
_LONG = 1_000
"""Lines from which on those that come again and again are no anchors: comparing each of ten
thousand equal lines with each takes half a minute.
"""


def opcodes(old: Sequence[str], new: Sequence[str]) -> Sequence[Opcode]:
    """`SequenceMatcher.get_opcodes`, in a time that repeated lines do not square."""
    return SequenceMatcher(
        None, old, new, autojunk=len(new) > _LONG
    ).get_opcodes()
