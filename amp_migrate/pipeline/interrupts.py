"""Ctrl-C and `kill`: a run ends in order, and never in the middle of a file."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Let `kill` end a run as Ctrl-C does: workers ended, files whole, a report of what
    was done.
    """
    with _handled(signal.SIGTERM, signal.default_int_handler):
        yield


@contextlib.contextmanager
def held_interrupt() -> Iterator[None]:
    """Hold an interrupt back until a file is whole and counted."""
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)

    with _handled(signal.SIGINT, hold), _handled(signal.SIGTERM, hold):
        yield
    if held:
        signal.raise_signal(held[0])


@contextlib.contextmanager
def _handled(
    number: int, handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    # Only the main thread of a program may set handlers, and only there do signals arrive.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous)
