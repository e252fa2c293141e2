"""The inferences for single calls of functions, whose parameters are what these calls give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amp_migrate.model.tensors.inference import Inference

_HOPS = 3
_CALLS = 200
"""How many calls are followed, each by itself, into what they run."""


class GivenCalls:
    """Remembers them; what begins anew counts anew, and keeps what holds still."""

    def __init__(self) -> None:
        self._now: dict[object, Inference] = {}
        self._before: dict[object, Inference] = {}

    def begin(self) -> None:
        """Count anew."""
        self._before |= self._now
        self._now.clear()

    def of(
        self, key: object, hops: int, make: Callable[[], Inference]
    ) -> Inference | None:
        """The inference for a call; None where it was reached through too many, or where there
        were too many of them.
        """
        if key not in self._now:
            if hops >= _HOPS or len(self._now) >= _CALLS:
                return None
            there = self._before.pop(key, None) or make()
            there.begin(hops + 1)
            self._now[key] = there
        return self._now[key]
