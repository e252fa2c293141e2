"""How much work an analysis may cost: steps, whose number depends on the size of what is analysed,
never on the ways through it.

What asks about names, values, dtypes and devices counts its questions here, whoever asked for
them, and ends with `BudgetEndedError` where they become too many: then nothing may be said about
what was asked. The time does not matter, so that a program comes to the same end everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


class BudgetEndedError(Exception):
    """An analysis was given up; nothing may be said about what was asked."""


class Budget:
    """Counts units of work."""

    __slots__ = ("left",)

    def __init__(self, units: int) -> None:
        self.left = units

    def spend(self, units: int = 1) -> None:
        """Count work about to be done.

        Raises BudgetEndedError when there was too much of it.
        """
        self.left -= units
        if self.left < 0:
            raise BudgetEndedError


_STEPS = 1_000_000
_PER_CHARACTER = 1
"""What one loop may cost that is looked at with so much text; some 20 microseconds a step."""
_LOOPS = 2
_PER_LOOP = 16
"""A program of several files may cost as much as so many loops that cost all they may, and as one
more for so many that it holds: most of what they ask is the same.
"""
_ON_PATHS = 20_000
_PER_LINE = 20
_ENDLESS = 1 << 62
_BUDGETS = [Budget(_ENDLESS)]
"""Of what is being analysed, the innermost last."""


def spend() -> None:
    """Count one question.

    Raises BudgetEndedError where whoever analyses may ask no more.
    """
    budget = _BUDGETS[-1]
    budget.left -= 1
    if budget.left < 0:
        raise BudgetEndedError


def for_loop(text: str) -> int:
    """The steps that one loop of a program may cost, or one rule, or the proof of its output."""
    return _STEPS + _PER_CHARACTER * len(text)


def for_program(texts: Mapping[str, str]) -> int:
    """The steps that the plans of files together may cost; one file, which nobody can take apart,
    as many as all of its loops.
    """
    whole = "".join(texts.values())
    loops = whole.count("backward")
    more = loops if len(texts) == 1 else loops // _PER_LOOP
    return (_LOOPS + more) * for_loop(whole)


def for_paths(text: str) -> int:
    """The units that the paths of a file may cost: an event, a condition or a statement on one
    path each.
    """
    return _ON_PATHS + _PER_LINE * text.count("\n")


def given_up(program: Program) -> list[str]:
    """The rules whose questions about a program became too many."""
    return program.remembered(given_up, list)


@contextmanager
def at_most(steps: int) -> Iterator[Budget]:
    """An analysis within that may ask so many questions, and no more than who asked for it.

    Raises BudgetEndedError at its end, too, where somebody within has caught it.
    """
    around = _BUDGETS[-1]
    own = Budget(min(steps, around.left))
    begun = own.left
    _BUDGETS.append(own)
    try:
        yield own
    finally:
        _BUDGETS.pop()
        around.left -= begun - own.left
    if own.left < 0:
        raise BudgetEndedError
