"""Questions about what values come from, each followed once.

`color = convert(color)` in each of four branches of `convert`, which calls itself: where an
object comes from is a graph with circles, and there are exponentially many ways through it. A
question that leads to itself adds nothing there; one that was answered on the way is answered so
again until the first question of all is, which adds up what all of them found.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from amp_migrate.model.budget import spend

_DEEP = 60
"""Questions behind one another; what is handed on more often is not followed to its end."""
Answer = TypeVar("Answer")


class FollowedOnce(Generic[Answer]):
    """Remembers the answers to questions while the first of them is being answered."""

    def __init__(self, circle: Callable[[], Answer]) -> None:
        """`circle`: the answer to a question that leads to itself, or too far."""
        self._circle = circle
        self._busy: set[Hashable] = set()
        self._kept: dict[tuple[Hashable, int], Answer] = {}

    @property
    def is_open(self) -> bool:
        """Whether a question is being answered: what is found meanwhile may be a part of it."""
        return bool(self._busy)

    def of(
        self, question: Hashable, assumed: int, find: Callable[[], Answer]
    ) -> Answer:
        """The answer by `find`. What is found under other assumptions, by the number `assumed`,
        is not taken for it.
        """
        spend()
        if (question, assumed) not in self._kept:
            if question in self._busy or len(self._busy) > _DEEP:
                return self._circle()
            self._busy.add(question)
            try:
                self._kept[question, assumed] = find()
            except BaseException:  # a budget ends, and others ask on
                self._kept.clear()
                raise
            finally:
                self._busy.discard(question)
        found = self._kept[question, assumed]
        if not self._busy:
            self._kept.clear()
        return found
