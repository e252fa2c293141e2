"""Where the time of a training step goes: data and forward, backward, optimizer."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import torch

from amp_migrate.runtime.events import Event

_NAMES = {
    "backward": "data and forward",
    "backwarded": "backward",
    "stepped": "optimizer",
}
"""By the event that ends it."""
_MOST = 2000


class Phases:
    """Stamps on the stream of the GPU, read when all is done; on the CPU those of a clock."""

    def __init__(self, cpu: bool, warmup: int) -> None:
        self._cpu = cpu
        self._left = warmup
        self._stamps: list[tuple[str, Any]] = []

    def on(self, event: Event) -> None:
        """Stamp what ends a part of a step, from the end of the warm-up on."""
        handler = getattr(self, f"_on_{event.kind}", None)
        if handler is not None:
            handler(event)

    def _on_backward(self, event: Event) -> None:
        if not self._left and len(self._stamps) < _MOST:
            self._stamps.append((event.kind, self._now()))

    _on_backwarded = _on_backward

    def _on_stepped(self, event: Event) -> None:
        if self._left:
            self._left -= 1
        self._on_backward(event)

    def _now(self) -> Any:
        if self._cpu:
            return time.perf_counter()
        stamp = torch.cuda.Event(enable_timing=True)
        stamp.record()
        return stamp

    def seconds(self) -> dict[str, float]:
        """By the names of the parts, in all."""
        found = dict.fromkeys(_NAMES.values(), 0.0)
        for (_, before), (kind, after) in pairwise(self._stamps):
            found[_NAMES[kind]] += self._between(before, after)
        return found if any(found.values()) else {}

    def _between(self, before: Any, after: Any) -> float:
        return after - before if self._cpu else before.elapsed_time(after) / 1e3
