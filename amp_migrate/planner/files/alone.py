"""Loops that ask for other files which do not join them: their own file does not tell all that a
right plan needs.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from amp_migrate.outcome import Alone
from amp_migrate.planner.files.related_files import SHOWN_ABOVE
from amp_migrate.planner.refusal import Refusal

_SAYS = {
    Alone.TOO_MUCH: (
        "what the loop runs, or who calls it, stands in other files ({}), and leads to more than "
        "can be followed together with them"
    ),
    Alone.NOT_NAMED: (
        "what the loop runs, or who calls it, stands in other files ({}), and files that were not "
        "named would have to change with it: give amp-migrate their folder"
    ),
}


def refuse_alone(
    alone: Alone | None, node: ast.AST, asked: Sequence[str]
) -> None:
    """Raise Refusal where a loop asks for files that do not join it."""
    if alone is not None and asked:
        raise _left(alone, node, asked)


def told_alone(
    alone: Alone | None, refusal: Refusal, asked: Sequence[str]
) -> Refusal:
    """Why a loop is left alone whose reason speaks of what is not in sight:
    it stands in files that nobody could follow.
    """
    unseen = bool(refusal.files) or refusal.above
    unseen |= refusal.reason in SHOWN_ABOVE
    if alone is Alone.TOO_MUCH and unseen and asked:
        return _left(alone, refusal.node, asked)
    return refusal


def _left(alone: Alone, node: ast.AST, asked: Sequence[str]) -> Refusal:
    names = sorted({Path(one).name for one in asked})
    told = names[0]
    if len(names) > 1:
        told = f"{names[0]} and {len(names) - 1} more"
    message = _SAYS[alone].format(told)
    return Refusal(alone.value, node, message)
