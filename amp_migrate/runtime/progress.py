"""A live line per run on a terminal; elsewhere one line when a run begins."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TextIO

from amp_migrate.runtime.job import Job


class Progress:
    """Watches the runs of a Supervisor."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._name = ""
        self._began = 0.0
        self._shown = 0.0

    def __call__(self, job: Job, state: Mapping[str, float]) -> None:
        """Show how far `job` is."""
        now = time.monotonic()
        if job.name != self._name:
            self._name, self._began, self._shown = job.name, now, 0.0
            if not self._live:
                self._stream.write(f"amp-migrate: running {job.name}\n")
                self._stream.flush()
        if self._live and now - self._shown >= 0.1:
            self._shown = now
            self._stream.write(
                "\r\x1b[2K" + self._line(job, state, now - self._began)
            )
            self._stream.flush()

    def _line(
        self, job: Job, state: Mapping[str, float], seconds: float
    ) -> str:
        step = int(state.get("step", 0))
        if not step:
            return f"{job.name:16} starting, {seconds:.0f} s"
        left = seconds / step * max(job.steps - step, 0)
        told = (
            f"{job.name:16} step {step}/{job.steps}  loss {state['loss']:.4g}"
        )
        return f"{told}  scale {state['scale']:g}  {left:.0f} s left"

    def tell(self, text: str) -> None:
        """A line that stays."""
        self.close()
        self._stream.write(f"amp-migrate: {text}\n")
        self._stream.flush()

    def close(self) -> None:
        """Clear the live line."""
        if self._live:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
