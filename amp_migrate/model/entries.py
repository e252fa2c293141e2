"""Answers to what holds where bodies begin, each found once, though they lead to one another.

Methods that call each other ask for an attribute of their object in circles. A question that leads
to itself is answered there with "bound, as far as this goes" (`ASSUMED`): all of a circle is bound,
or a place on it is not, and then none is from which that place is reached. So what was found to be
bound on the way holds as long as the open questions that it rests on turn out as assumed, and is
kept until these are answered; what was found not to be bound is not bound. Without that, every way
through a circle would be gone on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from amp_migrate.model.reach import ASSUMED, UNKNOWN, Reach
from amp_migrate.model.syntax import Scope

_BUDGET = 4_000
_DEEP = 60
_NONE = 1_000_000

Question: TypeAlias = tuple[Scope, str]


class Open:
    """What is being answered, in any file; it ends what leads back to it."""

    questions = 0


class Entries:
    """Remembers what names hold where the bodies of one program begin."""

    def __init__(self, find: Callable[[Scope, str], Reach]) -> None:
        """`find` answers a question, and may ask others and the same one."""
        self._find = find
        self._settled: dict[Question, Reach] = {}
        self._busy: dict[Question, int] = {}
        self._kept: dict[Question, tuple[Reach, int]] = {}
        """What rests on an open question: the answer, and the outermost of these."""
        self._order: list[Question] = []
        """The questions of `_kept`, as they came."""
        self._lowest = _NONE
        """The outermost open question that what was found since rests on."""
        self._steps = 0
        self._cuts = 0

    def cut(self) -> None:
        """Note that an answer may be "not bound" for no other reason than that it was not followed
        to its end.
        """
        self._cuts += 1

    def of(self, scope: Scope, key: str) -> Reach:
        """What a name holds where a body begins."""
        question = (scope, key)
        if question in self._settled:
            return self._settled[question]
        resting = self._resting(question)
        if resting is not None:
            self._lowest = min(self._lowest, resting[1])
            return resting[0]
        self._steps = self._steps + 1 if self._busy else 0
        if self._steps > _BUDGET or len(self._busy) > _DEEP:
            self.cut()
            return UNKNOWN
        return self._answered(question)

    def _resting(self, question: Question) -> tuple[Reach, int] | None:
        """An answer for the moment, and the outermost open question that it rests on."""
        if question in self._busy:
            return ASSUMED, self._busy[question]
        return self._kept.get(question)

    def _answered(self, question: Question) -> Reach:
        depth, since, cuts = len(self._busy), len(self._order), self._cuts
        outside, self._lowest = self._lowest, _NONE
        self._busy[question] = depth
        Open.questions += 1
        try:
            found = self._find(*question)
        except BaseException:  # a rule fails, and others ask on
            self._settle(since, holds=False)
            raise
        finally:
            Open.questions -= 1
            del self._busy[question]
        if self._lowest >= depth:  # it rests on no question that is still open
            self._settled[question] = found
            self._settle(since, found.certain)
            self._lowest = _NONE
        elif found.certain:
            self._keep(question, found, since)
        else:
            self._settle(since, holds=False)
            if is_attribute(*question) and self._cuts == cuts:
                self._settled[question] = found
        self._lowest = min(self._lowest, outside)
        return found

    def _settle(self, since: int, holds: bool) -> None:
        """What was kept on the way is settled, or was assumed wrongly."""
        for inner in self._order[since:]:
            found, _ = self._kept.pop(inner)
            if holds:
                self._settled[inner] = found
        del self._order[since:]

    def _keep(self, question: Question, found: Reach, since: int) -> None:
        """What rested on the question rests on what this rests on now."""
        for inner in self._order[since:]:
            held, lowest = self._kept[inner]
            self._kept[inner] = held, min(lowest, self._lowest)
        if is_attribute(*question):
            self._kept[question] = found, self._lowest
            self._order.append(question)


def is_attribute(scope: Scope, key: str) -> bool:
    """Whether a question is for an attribute of the object that a method belongs to: no answer to
    another question changes more of it than whether it is bound for certain.
    """
    return (
        key.startswith("self.")
        and key.count(".") == 1
        and scope.owner is not None
        and scope.self_name is not None
    )
