"""Facts that are defined by one another, as parameters by what callers pass: their least solution.

A key that is asked for while it is being computed has the value that the last round found for it,
nothing at first. Rounds are repeated until what was assumed is what was found; so each key costs
one computation a round, however many paths lead to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from amp_migrate.model.tensors.fact import UNKNOWN, DType, Fact

_NOTHING = Fact(DType.NONE)
_ROUNDS = 8
_EXACT = 3
"""Rounds after which ranges are given up: they may grow for ever, dtypes cannot."""


class Fixpoint:
    """Remembers the facts of keys, circular ones too."""

    def __init__(self) -> None:
        self._settled: dict[object, Fact] = {}
        self._found: dict[object, Fact] = {}
        self._assumed: dict[object, Fact] = {}
        self._open: set[object] = set()
        self._relied: set[object] = set()

    def of(self, key: object, compute: Callable[[], Fact]) -> Fact:
        """The fact of `key`, by `compute`, which may ask for other keys and for this one."""
        known = self._settled.get(key) or self._found.get(key)
        if known is not None:
            return known
        if key in self._open:
            self._relied.add(key)
            return self._assumed.get(key, _NOTHING)
        if self._open:
            return self._once(key, compute)
        try:
            return self._solved(key, compute)
        finally:
            self._assumed.clear()

    def settle(self, key: object, fact: Fact) -> None:
        """Say what a key is, before it is asked."""
        self._settled[key] = fact

    def forget(self) -> None:
        """Start over: what facts rest on has changed."""
        self._settled.clear()
        self._found.clear()

    def _solved(self, key: object, compute: Callable[[], Fact]) -> Fact:
        for number in range(_ROUNDS):
            self._found.clear()
            self._relied.clear()
            found = self._once(key, compute)
            wanted = {one: self._next(one, number) for one in self._relied}
            if all(
                fact == self._assumed.get(one, _NOTHING)
                for one, fact in wanted.items()
            ):
                self._settled.update(self._found)
                self._found.clear()
                return found
            self._assumed.update(wanted)
        self._found.clear()
        self._settled[key] = UNKNOWN
        return UNKNOWN

    def _next(self, key: object, number: int) -> Fact:
        fact = self._found[key]
        return (
            fact if number < _EXACT else replace(fact, bounds=None, elements=())
        )

    def _once(self, key: object, compute: Callable[[], Fact]) -> Fact:
        self._open.add(key)
        try:
            self._found[key] = compute()
        finally:
            self._open.discard(key)
        return self._found[key]
