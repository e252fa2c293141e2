"""How far a run has come, for the process that waits for it."""

from __future__ import annotations

import json
import time
from pathlib import Path


class ProgressFile:
    """Lines for the parent: step, loss, scale. Rewritten whole, so that the parent reads the last
    state.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, step: int, loss: float, scale: float) -> None:
        part = self._path.with_suffix(".part")
        part.write_text(
            json.dumps(
                {
                    "step": step,
                    "loss": loss,
                    "scale": scale,
                    "time": time.time(),
                }
            ),
            encoding="utf-8",
        )
        part.replace(self._path)
