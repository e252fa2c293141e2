"""What happens in a training program, as the probe, the monitor and the drills see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Site:
    """The line of the user's program that caused an event."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Event:
    """One call.

    `kind`: region (an enabled autocast is entered), optimizer (one is made), make (a scaler),
    scale, backward, backwarded, zero, unscale, read (gradients), step, gradients (the optimizer is
    about to apply them), stepped, update, updated.
    """

    kind: str
    site: Site
    scaler: Any = None
    optimizer: Any = None
    tensors: tuple[Any, ...] = ()
    """Losses of a backward, unscaled; parameters whose gradients are read or zeroed."""
    roots: tuple[Any, ...] = ()
    """For backward: where the graphs of the losses begin."""
    taken: bool = True
    """For stepped: False where the scaler skipped the step."""
    scaled: bool = False
    """For backward: the loss came out of an enabled scaler."""
    detail: str = ""
    """The dtype of a region; the name of the function that reads."""


class Listener(Protocol):
    """Told of every event, before the call is made (`stepped`: after it)."""

    def on(self, event: Event) -> None:
        """Take note of `event`. May raise to stop the program."""
