"""What the runs of a program left, for the checks that ask about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from amp_migrate.runtime.compare import (
    largest_difference,
)
from amp_migrate.runtime.trace import Trace


@dataclass
class Runs:
    """What the runs of one rank left, by name."""

    traces: dict[str, Trace] = field(default_factory=dict)
    distances: dict[str, list[Any]] = field(default_factory=dict)
    """Per AMP run: distances of the first gradients (see `gradients`)."""
    underflow: dict[str, list[Any]] = field(default_factory=dict)
    """Per AMP run: what float16 flushed to zero (see `explain`)."""
    reference: str = ""
    """`float64`, or why there is none."""
    parameter_noise: float = 0.0
    parameter_difference: float = 0.0
    """Largest relative difference of final parameters: original again, and amp-off, against the
    original.
    """

    @property
    def repeats(self) -> list[str]:
        """Names of the runs of the original after its first."""
        return [
            name for name in self.traces if name.startswith("original-again")
        ]

    @property
    def originals(self) -> list[str]:
        """Names of all runs of the original."""
        return ["original", *self.repeats]

    @property
    def unseeded(self) -> bool:
        """Whether the program's first loss is another one in every run."""
        if "original-again" not in self.traces:
            return False
        first, again = (
            self["original"].losses[:1],
            self["original-again"].losses[:1],
        )
        return largest_difference(first, again) > 1e-3

    def __getitem__(self, name: str) -> Trace:
        return self.traces[name]

    def __contains__(self, name: str) -> bool:
        return name in self.traces

    def latest(self, name: str) -> Trace:
        """The run `name`, or the last of those that gave its scale time (see `settling`)."""
        return [
            self[one]
            for one in self.traces
            if one == name or one.startswith(f"{name}-from-")
        ][-1]

    def amp(self) -> list[str]:
        """Names of the runs with AMP on."""
        return [name for name in self.traces if name in ("amp", "amp-bfloat16")]
