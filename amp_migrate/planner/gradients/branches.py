"""Whether some of several things that stand in branches happen on every path."""

from __future__ import annotations

from collections.abc import Iterable

Guards = frozenset[str]
"""Conditions with the branch of each: `then TEST`, `else TEST`."""

_TESTS = 10


def opposite(guard: str) -> str:
    """The other branch of a condition."""
    branch, _, test = guard.partition(" ")
    if branch == "then":
        return f"else {test}"
    return f"then {test}"


def always_one(
    things: Iterable[Guards], left: Iterable[Guards], tests: int = _TESTS
) -> bool:
    """Whether one of the things happens whatever holds, but where the path is
    `left`; False where more conditions would have to be told apart than `tests`.
    """
    things, left = list(things), list(left)
    if not all((*things, *left)):
        return True
    split = _first_test(things) or _first_test(left)
    if split is None or not tests:
        return False
    for held in (split, opposite(split)):
        mine = _where(things, held)
        gone = _where(left, held)
        if not always_one(mine, gone, tests - 1):
            return False
    return True


def _first_test(things: list[Guards]) -> str | None:
    """A condition of what stands under the fewest, of an `if` and no other."""
    shortest = sorted(things, key=len)
    for one in shortest:
        for guard in sorted(one):
            if guard.startswith(("then ", "else ")):
                return guard
    return None


def _where(things: list[Guards], held: str) -> list[Guards]:
    """What may happen where a condition holds, without that condition."""
    other = opposite(held)
    found = []
    for one in things:
        if other not in one:
            found.append(one - {held})
    return found
