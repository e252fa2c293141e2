"""How much work one file may cost: units that depend on its size, never on its paths."""

from __future__ import annotations

_BASE = 20_000
_PER_LINE = 20


class BudgetEndedError(Exception):
    """The analysis of a file was given up; nothing may be said about it."""


class Budget:
    """Counts units of work: one event, one condition or one statement on one path."""

    def __init__(self, lines: int) -> None:
        self.left = _BASE + _PER_LINE * lines

    def spend(self, units: int = 1) -> None:
        """Count work about to be done.

        Raises BudgetEndedError when there was too much of it.
        """
        self.left -= units
        if self.left < 0:
            raise BudgetEndedError
