"""How much of its time a program waits for a DataLoader."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import dataloader


def waiting_share() -> Callable[[], float]:
    """From now on, time every batch; the answer is the share of the time since the second one, so
    that workers that start are not counted.
    """
    kind: Any = dataloader._BaseDataLoaderIter
    function = kind.__next__
    waited: list[float] = []
    ends: list[float] = []

    @functools.wraps(function)
    def timed(iterator: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(iterator)
        finally:
            ends.append(time.perf_counter())
            waited.append(ends[-1] - began)

    kind.__next__ = timed
    kind.next = timed  # its older name
    return lambda: (
        sum(waited[2:]) / (ends[-1] - ends[1]) if len(ends) > 2 else 0.0
    )
