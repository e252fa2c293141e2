"""Facts that are defined by one another, as parameters by what callers pass: their least solution.

A key that is asked for while it is being computed has the value that the last round found for it,
nothing at first. Rounds are repeated until what was assumed is what was found, for the keys that
lead to one another alone: what rests on no key that is still open is settled at once. So each key
costs one computation a round of its own circle, however many paths lead to it. It is noted which
keys a fact was computed from: where one of these changes, what rests on it is forgotten, the others
stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from amp_migrate.model.tensors.fact import UNKNOWN, DType, Fact

_NOTHING = Fact(DType.NONE)
_ROUNDS = 8
_EXACT = 3
"""Rounds after which ranges are given up: they may grow for ever, dtypes cannot."""
_NONE = 1_000_000
_NEVER = -1


class _Level:
    """The place of an open key among those around it; once the key is left, in a circle that began
    further out, that of the key which it rests on.
    """

    __slots__ = ("own_depth", "rests_on")

    def __init__(self, depth: int) -> None:
        self.own_depth = depth
        self.rests_on: _Level | None = None

    @property
    def depth(self) -> int:
        level = self
        while level.rests_on is not None:
            level = level.rests_on
        return level.own_depth


_EVER = _Level(_NEVER)


class Fixpoint:
    """Remembers the facts of keys, circular ones too."""

    def __init__(self) -> None:
        self._settled: dict[object, Fact] = {}
        self._found: dict[object, tuple[Fact, _Level]] = {}
        """What keys of open circles are for now, in the order in which they were found, and the
        outermost open key that this rests on."""
        self._assumed: dict[object, Fact] = {}
        self._open: dict[object, int] = {}
        self._levels: list[_Level] = []
        """Of the open keys, the outermost first."""
        self._relied: set[object] = set()
        self._readers: dict[object, set[object]] = {}
        """Of each key, and of what else was read on the way, the keys that rest on it."""
        self._lowest = _NONE
        """The outermost open key that an answer found since has rested on."""

    def of(self, key: object, compute: Callable[[], Fact]) -> Fact:
        """The fact of `key`, by `compute`, which may ask for other keys and for this one."""
        self.read(key)
        known = self._settled.get(key)
        if known is not None:
            return known
        found = self._found.get(key)
        if found is not None:
            self._lowest = min(self._lowest, found[1].depth)
            return found[0]
        depth = self._open.get(key)
        if depth is not None:
            self._relied.add(key)
            self._lowest = min(self._lowest, depth)
            return self._assumed.get(key, _NOTHING)
        outside, self._lowest = self._lowest, _NONE
        try:
            return self._solved(key, compute)
        finally:
            self._lowest = min(self._lowest, outside)
            if not self._open:
                self._start_over()

    def read(self, key: object) -> None:
        """What is being computed rests on `key`, which need not be one that has a fact."""
        if self._open:
            reader = next(reversed(self._open))
            self._readers.setdefault(key, set()).add(reader)

    def settle(self, key: object, fact: Fact) -> None:
        """Say what a key is, before it is asked."""
        self._settled[key] = fact

    def leave_open(self) -> None:
        """What is being computed is no answer yet: neither it nor what rests on it is settled."""
        self._lowest = _NEVER

    def forget(self, nodes: Collection[object]) -> None:
        """Forget what rests on these nodes: on their facts, whoever asked for them, or on where
        they run. Nothing is being computed meanwhile.
        """
        keys = {*self._settled, *self._readers}
        wanted = [key for key in keys if _about(key) in nodes]
        while wanted:
            key = wanted.pop()
            self._settled.pop(key, None)
            wanted += self._readers.pop(key, ())

    def _solved(self, key: object, compute: Callable[[], Fact]) -> Fact:
        """Round by round, where a circle begins with `key`; else once, for who began it."""
        before, depth = len(self._found), len(self._open)
        level = _Level(depth)
        self._levels[depth:] = [level]
        for number in range(_ROUNDS):
            fact = self._once(key, compute)
            if self._lowest < depth:
                outer = (
                    self._levels[self._lowest] if self._lowest >= 0 else _EVER
                )
                level.rests_on = outer
                self._found[key] = fact, outer
                return fact
            if self._lowest == _NONE:
                self._settled[key] = fact
                return fact
            self._found[key] = fact, level
            self._lowest = _NONE
            if self._agree(number, before):
                return fact
        self._settled[key] = UNKNOWN
        return UNKNOWN

    def _agree(self, number: int, before: int) -> bool:
        """Whether the keys of a circle are what was assumed, which settles them; else it is what
        they are assumed to be next.
        """
        circle = [
            self._found.popitem() for _ in range(len(self._found) - before)
        ]
        relied = [
            (key, fact) for key, (fact, _) in circle if key in self._relied
        ]
        self._relied.difference_update(key for key, _ in relied)
        wanted = {key: _next(fact, number) for key, fact in relied}
        agreed = all(
            fact == self._assumed.get(key, _NOTHING)
            for key, fact in wanted.items()
        )
        if agreed:
            self._settled.update((key, fact) for key, (fact, _) in circle)
        self._assumed.update(wanted)
        return agreed

    def _once(self, key: object, compute: Callable[[], Fact]) -> Fact:
        self._open[key] = len(self._open)
        try:
            return compute()
        finally:
            del self._open[key]

    def _start_over(self) -> None:
        self._found.clear()
        self._assumed.clear()
        self._relied.clear()
        self._lowest = _NONE


def _about(key: object) -> object:
    """The node that a key asks about."""
    return key[1] if isinstance(key, tuple) else key


def _next(fact: Fact, number: int) -> Fact:
    if number < _EXACT:
        return fact
    return fact._replace(bounds=None, elements=())
