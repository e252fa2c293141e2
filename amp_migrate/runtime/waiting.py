"""How much of its time a program waits for a DataLoader, and whether workers load the data."""

from __future__ import annotations

import functools
import time
from typing import Any

from torch.utils.data import dataloader


class Waiting:
    """From now on, time every batch."""

    def __init__(self) -> None:
        self.workers = False
        """Whether processes of their own load the data."""
        self._waited: list[float] = []
        self._ends: list[float] = []
        kind: Any = dataloader._BaseDataLoaderIter
        function = kind.__next__

        @functools.wraps(function)
        def timed(iterator: Any) -> Any:
            began = time.perf_counter()
            self.workers |= iterator._num_workers > 0
            try:
                return function(iterator)
            finally:
                self._ends.append(time.perf_counter())
                self._waited.append(self._ends[-1] - began)

        kind.__next__ = timed
        kind.next = timed  # its older name

    @property
    def share(self) -> float:
        """Of the time since the second batch, so that workers that start are not counted."""
        if len(self._ends) < 3:
            return 0.0
        return sum(self._waited[2:]) / (self._ends[-1] - self._ends[1])
