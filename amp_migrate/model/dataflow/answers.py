"""Answers to questions that lead to one another, each found once."""

from __future__ import annotations

import ast
from collections.abc import Callable

from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import UNKNOWN, Value

_DEEP = 100
_NONE = 1_000_000

Key = tuple[int, int]


class _Open:
    """The questions that are being answered, of all files: one file's lead to those of others."""

    depth = 0
    lowest = _NONE
    """The outermost of them that an answer found since has been a part of."""


def any_open() -> bool:
    """Whether a question is being answered: what is found meanwhile may rest on "unknown"."""
    return _Open.depth > 0


class Answers:
    """Remembers what the expressions of one program are.

    A question that leads to itself is answered with "unknown" there. What rests on such an answer
    and is unknown itself may be known once that question is answered: it is kept until the first
    question of all is, so that each costs one computation a question, and no longer.
    """

    def __init__(self) -> None:
        # The nodes are held, so that their ids stay their own.
        self.known: dict[Key, tuple[ast.expr, Value]] = {}
        self._tentative: dict[Key, ast.expr] = {}
        self._busy: dict[Key, int] = {}

    def of(
        self,
        expr: ast.expr,
        scope: Scope,
        infer: Callable[[ast.expr, Scope], Value],
    ) -> Value:
        """The answer by `infer`, which may ask other questions and this one."""
        key = (id(expr), id(scope))
        held = self.known.get(key)
        if held is not None:
            return held[1]
        rests = self._rests(key)
        if rests is not None:
            _Open.lowest = min(_Open.lowest, rests)
            return UNKNOWN
        outside, _Open.lowest = _Open.lowest, _NONE
        depth = self._busy[key] = _Open.depth = _Open.depth + 1
        try:
            value = infer(expr, scope)
        except BaseException:  # a budget ends, and others ask on
            self._tentative.clear()
            raise
        finally:
            _Open.depth = depth - 1
            del self._busy[key]
            rests, _Open.lowest = _Open.lowest, min(outside, _Open.lowest)
        if value or rests >= depth:
            self.known[key] = (expr, value)
        else:
            self._tentative[key] = expr
        if rests >= depth:
            _Open.lowest = outside
        if not self._busy:
            self._tentative.clear()
        return value

    def _rests(self, key: Key) -> int | None:
        """The outermost open question that the answer is a part of, where it has to be "unknown"
        for the moment.
        """
        if key in self._busy:
            return self._busy[key]
        if key in self._tentative or len(self._busy) > _DEEP:
            return next(iter(self._busy.values()))
        return None
