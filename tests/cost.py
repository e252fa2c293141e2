"""What a computation costs, counted: calls are the same on every machine, seconds are not."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def calls(function: Callable[[], object]) -> int:
    """How many calls, of Python's and C's functions, a function makes until it returns."""
    count = 0

    def note(frame: object, event: str, given: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def growth(of: Callable[[int], Callable[[], object]], size: int) -> float:
    """How many times as much twice the size costs: 2 where the cost is linear, 4 where quadratic."""
    return calls(of(2 * size)) / calls(of(size))


@contextmanager
def ends(seconds: int = 60) -> Iterator[None]:
    """Fail what would run for ever, such as a pattern that is tried in every way; the time is no measure."""

    def late(number: int, frame: object) -> None:
        raise AssertionError(f"still running after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
