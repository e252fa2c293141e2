"""What every part is told."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

WRONG = 4
"""Exit code of a part that found something wrong: one that dies of an error has Python's 1."""


@dataclass(frozen=True)
class Budget:
    """Where, how much of it, and until when."""

    device: str
    tiny: bool
    end: float

    @property
    def left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()


def budget(what: str) -> Budget:
    """From the command line of a part."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    return Budget(given.device, given.tiny, time.monotonic() + given.seconds)
