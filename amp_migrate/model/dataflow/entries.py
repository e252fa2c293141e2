"""Answers to what holds where bodies begin, each found once, though they lead to one another.

Methods that call each other ask in circles for an attribute of their object, or of what they hand
to each other. A question that leads to itself is answered there with "bound, and by nothing else,
as far as this goes" (`ASSUMED`): all of a circle is bound, or a place on it is not, and then none
is from which that place is reached. So what was found to be bound on the way holds as long as the
open questions that it rests on turn out as assumed, and is kept until these are answered; what was
found not to be bound is not bound. And all that is handed round in a circle may have been bound by
the same bindings, those of the question that was asked first. Without that, every way through a
circle would be gone on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from amp_migrate.model.budget import spend
from amp_migrate.model.dataflow.reach import ASSUMED, UNKNOWN, Reach
from amp_migrate.model.syntax.module import FUNCTIONS, Scope

_BUDGET = 4_000
_DEEP = 60
_NONE = 1_000_000

Question: TypeAlias = tuple[Scope, str]


class Kind(Enum):
    """What answers to other questions may change in an answer."""

    ATTRIBUTE = "whether it is bound for certain"
    PARAMETER = "nothing but what they add"
    OTHER = "all"


class Open:
    """What is being answered, in any file; it ends what leads back to it."""

    questions = 0
    frame = 0
    """The number of the innermost of them that is about the beginning of a body, 0 for none."""
    frames = 0
    """How many of these there were."""

    @classmethod
    def enter(cls) -> int:
        """Begin such a question; the number of the one around it."""
        outer = cls.frame
        cls.questions += 1
        cls.frame = cls.frames = cls.frames + 1
        return outer

    @classmethod
    def leave(cls, outer: int) -> None:
        """End it."""
        cls.questions -= 1
        cls.frame = outer


class Entries:
    """Remembers what names hold where the bodies of one program begin."""

    def __init__(self, find: Callable[[Scope, str], Reach]) -> None:
        """`find` answers a question, and may ask others and the same one."""
        self._find = find
        self._settled: dict[Question, Reach] = {}
        self._busy: dict[Question, int] = {}
        self._kinds: list[Kind] = []
        """Of the open questions."""
        self._kept: dict[Question, tuple[Reach, int]] = {}
        """What rests on an open question: the answer, and the outermost of these."""
        self._order: list[Question] = []
        """The questions of `_kept`, as they came."""
        self._lowest = _NONE
        """The outermost open question that what was found since rests on."""
        self._mixed = _NONE
        """The outermost one that is part of a circle of several kinds."""
        self._steps = 0
        self._cuts = 0

    def cut(self) -> None:
        """Note that an answer may be "not bound" for no other reason than that it was not followed
        to its end.
        """
        self._cuts += 1

    def of(self, scope: Scope, key: str) -> Reach:
        """What a name holds where a body begins."""
        spend()
        question = (scope, key)
        if question in self._settled:
            return self._settled[question]
        kind = kind_of(scope, key)
        resting = self._resting(question, kind)
        if resting is not None:
            self._lowest = min(self._lowest, resting[1])
            return resting[0]
        self._steps = self._steps + 1 if self._busy else 0
        if self._steps > _BUDGET or len(self._busy) > _DEEP:
            self.cut()
            return UNKNOWN
        return self._answered(question, kind)

    def _resting(
        self, question: Question, kind: Kind
    ) -> tuple[Reach, int] | None:
        """An answer for the moment, and the outermost open question that it rests on."""
        if question in self._busy:
            return ASSUMED, self._busy[question]
        kept = self._kept.get(question)
        # The bindings of what is handed round are not all there yet: they are added up by the
        # questions of the same kind, and by no others.
        if kind is Kind.PARAMETER and self._kinds[-1:] != [kind]:
            return None
        return kept

    def _answered(self, question: Question, kind: Kind) -> Reach:
        depth, since, cuts = len(self._busy), len(self._order), self._cuts
        outside, self._lowest = self._lowest, _NONE
        self._busy[question] = depth
        self._kinds.append(kind)
        around = Open.enter()
        try:
            found = self._find(*question)
        except BaseException:  # a rule fails, and others ask on
            self._drop(since)
            raise
        finally:
            Open.leave(around)
            del self._busy[question]
            self._kinds.pop()
        if self._lowest >= depth:  # it rests on no question that is still open
            self._settled[question] = found
            is_mixed = depth <= self._mixed < _NONE
            self._settle(since, found, kind, pure=not is_mixed)
            self._mixed = _NONE if is_mixed else self._mixed
            self._lowest = _NONE
        else:
            self._suspend(question, kind, found, since, self._cuts == cuts)
        self._lowest = min(self._lowest, outside)
        return found

    def _settle(
        self, since: int, head: Reach, kind: Kind, *, pure: bool
    ) -> None:
        """What was kept on the way is settled as its circle is, or was assumed wrongly."""
        for inner in self._order[since:]:
            found = self._kept[inner][0]
            if found.certain and not head.certain:
                continue
            if kind_of(*inner) is Kind.ATTRIBUTE:
                self._settled[inner] = found
            elif kind is Kind.PARAMETER and pure:
                all_of_it = head._replace(certain=found.certain)
                self._settled.setdefault(inner, all_of_it)
        self._drop(since)

    def _suspend(
        self,
        question: Question,
        kind: Kind,
        found: Reach,
        since: int,
        exact: bool,
    ) -> None:
        """Keep an answer that rests on open questions; what rested on it rests on these now."""
        lowest = self._lowest
        if any(other is not kind for other in self._kinds[lowest:]):
            self._mixed = min(self._mixed, lowest)
        inner = [(one, *self._kept[one]) for one in self._order[since:]]
        self._drop(since)
        for one, held, rests in inner:
            if found.certain or not held.certain:
                self._keep(one, held, min(rests, lowest))
        if kind is Kind.ATTRIBUTE and not found.certain:
            self._settled |= {question: found} if exact else {}
        elif kind is Kind.ATTRIBUTE or kind is Kind.PARAMETER and exact:
            self._keep(question, found, lowest)

    def _keep(self, question: Question, found: Reach, lowest: int) -> None:
        if question not in self._kept:
            self._kept[question] = found, lowest
            self._order.append(question)

    def _drop(self, since: int) -> None:
        """Forget what was noted since a place in the order."""
        for inner in self._order[since:]:
            del self._kept[inner]
        del self._order[since:]


def kind_of(scope: Scope, key: str) -> Kind:
    """What a question is about: an attribute of the object that a method belongs to, an attribute
    of a parameter, or something else.
    """
    head, dot, rest = key.partition(".")
    if not dot:
        return Kind.OTHER
    if head == "self" and scope.owner is not None and scope.self_name:
        return Kind.OTHER if "." in rest else Kind.ATTRIBUTE
    is_own = head in scope.bindings and head not in scope.outer
    return (
        Kind.PARAMETER
        if is_own and isinstance(scope.node, FUNCTIONS)
        else Kind.OTHER
    )
