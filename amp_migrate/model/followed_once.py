"""Attributes of objects, followed through assignments and returned values once each.

`color = convert(color)` in each of four branches of `convert`, which calls itself: where an
object comes from is a graph with circles, and there are exponentially many ways through it. A
question that leads to itself adds nothing there; one that was answered on the way is answered so
again until the first question of all is, which adds up what all of them found.
"""

from __future__ import annotations

from collections.abc import Callable

from amp_migrate.model.reach import Reach
from amp_migrate.model.syntax import Binding, Function

_DEEP = 60
"""Objects behind one another; what is handed on more often is not followed to its end."""
Question = tuple[Binding | Function, str]
"""An attribute of what a binding holds, or of what a function gives back."""


class FollowedOnce:
    """Remembers what attributes of objects hold, while one is asked for."""

    def __init__(self, circle: Callable[[], Reach]) -> None:
        """`circle`: the answer to a question that leads to itself, or too far."""
        self._circle = circle
        self._busy: set[Question] = set()
        self._kept: dict[tuple[Question, int], Reach] = {}

    def of(
        self, question: Question, assumed: int, find: Callable[[], Reach]
    ) -> Reach:
        """The answer by `find`. What is found under other assumptions, by the number `assumed`,
        is not taken for it.
        """
        if (question, assumed) not in self._kept:
            if question in self._busy or len(self._busy) > _DEEP:
                return self._circle()
            self._busy.add(question)
            try:
                self._kept[question, assumed] = find()
            finally:
                self._busy.discard(question)
        found = self._kept[question, assumed]
        if not self._busy:
            self._kept.clear()
        return found
