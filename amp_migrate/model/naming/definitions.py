"""Sets of possible definitions, and the journal of how they change along a body.

Every change is written down, so that the set at any place is found by its position in the journal,
and a state is nothing but a position.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Iterable
from typing import TypeAlias

from amp_migrate.model.syntax.module import Binding
from amp_migrate.records import NamedTuple


class Unbound(NamedTuple):
    """The name has no value: deleted, or not bound yet."""


class Entry(NamedTuple):
    """What the name holds where the body begins; `proved`: it was read since, so it is bound."""

    proved: bool = False


class Phi(NamedTuple):
    """What the name holds at the head of a loop: its value before the loop, or at its end."""

    loop: ast.stmt
    key: str
    proved: bool = False


class OfObject(NamedTuple):
    """An attribute of the object that a binding of its holder has brought."""

    holder: str
    binding: Binding
    proved: bool = False


class Called(NamedTuple):
    """What a method of the same object leaves in an attribute; `before` is what it finds there."""

    call: ast.Call
    key: str
    before: Items
    proved: bool = False


Item: TypeAlias = Binding | Unbound | Entry | Phi | OfObject | Called
Items: TypeAlias = frozenset[Item]
UNBOUND: Items = frozenset((Unbound(),))
ENTRY: Items = frozenset((Entry(),))


def proved_of(item: Item) -> Item | None:
    """What is left of a possible definition once the name has been read."""
    if isinstance(item, Binding):
        return item
    if isinstance(item, Unbound):
        return None
    return item if item.proved else item._replace(proved=True)


class Journal:
    """What every name may hold, at every position."""

    def __init__(self, first: Callable[[str], Items]) -> None:
        """`first` tells what a name holds before anything has changed it."""
        self.first = first
        self._keys: list[str] = []
        self._log: dict[str, tuple[list[int], list[Items]]] = {}
        self._state: dict[str, Items] = {}

    @property
    def position(self) -> int:
        """Where the walk is."""
        return len(self._keys)

    def changed(self, since: int, until: int | None = None) -> list[str]:
        """The names that were set between two positions, each once."""
        return list(dict.fromkeys(self._keys[since:until]))

    def at(self, key: str, position: int) -> Items:
        """What may be in `key` at a position of the journal."""
        log = self._log.get(key)
        index = bisect.bisect_right(log[0], position) if log is not None else 0
        return (
            log[1][index - 1] if log is not None and index else self.first(key)
        )

    def get(self, key: str) -> Items:
        """What may be in `key` now."""
        found = self._state.get(key)
        return found if found is not None else self.first(key)

    def set(self, key: str, items: Items) -> None:
        """From here on, `key` holds one of `items`."""
        self._state[key] = items
        self._keys.append(key)
        positions, values = self._log.setdefault(key, ([], []))
        positions.append(len(self._keys))
        values.append(items)

    def goto(self, position: int, since: int) -> None:
        """Continue from the state at `position`; nothing has changed before `since`."""
        for key in self.changed(since):
            items = self.at(key, position)
            if items != self._state[key]:
                self.set(key, items)

    def join(self, positions: list[int], since: int) -> None:
        """Continue from any of the states at `positions`."""
        for key in self.changed(since):
            items = frozenset().union(
                *(self.at(key, position) for position in positions)
            )
            if items != self._state[key]:
                self.set(key, items)

    def anywhere(self, since: int, until: int) -> None:
        """Continue from any state between: an exception may be raised at any place."""
        for key in self.changed(since):
            positions, values = self._log[key]
            first, last = (
                bisect.bisect_right(positions, p) for p in (since, until)
            )
            self.set(key, self.at(key, since).union(*values[first:last]))

    def goto_but(self, position: int, since: int, kept: Iterable[str]) -> None:
        """Continue from the state at `position`, but for some names, which stay as they are."""
        final = {key: self._state[key] for key in kept}
        self.goto(position, since)
        for key, items in final.items():
            if items != self._state[key]:
                self.set(key, items)
