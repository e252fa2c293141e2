"""What one run left behind: plain data that goes from the child process to the parent as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Violation:
    """A breach of AMP's protocol, at a line of the user's file; `count` times in the run."""

    rule: str
    message: str
    file: str
    line: int
    step: int
    count: int = 1


@dataclass(frozen=True)
class Place:
    """Where a file of the user's calls or defines a module: a line of the original file, what is
    called there (nothing of a `def forward`), and which arguments are floating tensors, by their
    position (`self` not counted) or keyword.
    """

    file: str
    line: int
    expression: str
    floats: tuple[int | str, ...]


@dataclass
class Trace:
    """One run of a program. Lists of losses run over the backward calls, all others over the
    attempts to step.
    """

    status: str = "running"
    """`stopped` after the wanted steps, `finished` by itself before, `raised`, or how the process
    ended.
    """
    error: str = ""
    raised_at: str = ""
    """The innermost line of the user's files under which the error was raised."""
    unmeasured: list[str] = field(default_factory=list)
    """What a part of the measuring died of; the program went on."""
    seeds: list[int] = field(default_factory=list)
    """What the program has seeded generators with, in order."""
    device: str = "cpu"
    dtype: str = "float32"
    losses: list[float] = field(default_factory=list)
    loss_sites: list[str] = field(default_factory=list)
    loss_places: list[str] = field(default_factory=list)
    """Where the user finds them, if not there: the sites are those of the original, to be compared.
    """
    loss_steps: list[int] = field(default_factory=list)
    """Attempts of the main optimizer before each loss."""
    optimizers: list[int] = field(default_factory=list)
    step_sites: list[str] = field(default_factory=list)
    """Lines of the attempts to step, each once."""
    taken: list[bool] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    peak_memory_bytes: int = 0
    probe_seconds: float = 0.0
    """What measuring took of `total_seconds`, the time of the steps after the warm-up."""
    total_seconds: float = 0.0
    waiting_share: float = 0.0
    """Of the whole time, what the program waited for a DataLoader."""
    workers: bool = False
    """Whether processes of their own loaded the data: what they enter is not seen."""
    violations: list[Violation] = field(default_factory=list)
    parameter_names: list[str] = field(default_factory=list)
    parameter_shapes: list[list[int]] = field(default_factory=list)
    parameter_digests: list[str] = field(default_factory=list)
    non_finite_parameters: list[str] = field(default_factory=list)
    without_gradient: list[str] = field(default_factory=list)
    regions: int = 0
    """Enabled autocast regions entered."""
    operators: int = 0
    """Those in the graphs of the first losses."""
    half_operators: int = 0
    """Of these, the ones whose result is half."""
    modules: dict[str, bool] = field(default_factory=dict)
    """Modules of the first steps by name: whether they returned half."""
    devices: list[str] = field(default_factory=list)
    """Types of the devices of the parameters."""
    steps_inside: int = 0
    """Attempts to step while autocast was on."""
    drills: dict[str, Any] = field(default_factory=dict)
    diagnosis: dict[str, Any] = field(default_factory=dict)
    places: dict[str, list[Place]] = field(default_factory=dict)
    """By module, where the user's files call or define it; of a run that looks for it."""
    masks: int = 0
    """Calls of dropout whose mask was drawn apart from the dtype: the run was slower by that."""
    processes: list[str] = field(default_factory=list)
    """The lines that started processes, other than workers that load data: one for each of these,
    which are not measured.
    """
    captured: int = 0
    """Calls that were made while a CUDA graph was captured: nothing of the measuring is in it."""
    saves: list[tuple[int, int]] = field(default_factory=list)
    """Checkpoints saved, with an optimizer's state: attempts to step and losses before each."""
    trackers: list[float] = field(default_factory=list)
    """Good steps in a row that a scaler counts, at each attempt; of runs that are resumed."""
    scalars: list[float] = field(default_factory=list)
    """Values of `--metric` that were written to TensorBoard, or returned."""
    phase_seconds: dict[str, float] = field(default_factory=dict)
    """Where the time of the steps goes."""
    not_entered: list[tuple[str, int, int, bool]] = field(default_factory=list)
    """Path, first and last line, and whether the rewrite changed them."""
    sparse: bool = False
    """Whether sparse tensors stayed on the CPU, since the simulated GPU has none."""
    output: str = ""
    """The last lines that the program printed."""

    @property
    def main_optimizer(self) -> int:
        """The optimizer that steps most often; the number of steps of a run is the number of its
        attempts.
        """
        return max(
            set(self.optimizers),
            key=lambda index: (self.optimizers.count(index), -index),
            default=0,
        )

    @property
    def steps(self) -> int:
        """Attempts of the main optimizer."""
        return self.optimizers.count(self.main_optimizer)

    @property
    def skipped_steps(self) -> int:
        """Attempts, of any optimizer, that the scaler skipped."""
        return self.taken.count(False)

    @property
    def left_out(self) -> list[tuple[int, int]]:
        """The attempts that the scaler skipped: index of the optimizer, and of its attempt."""
        attempts: Counter[int] = Counter()
        found = []
        for optimizer, taken in zip(self.optimizers, self.taken, strict=True):
            if not taken:
                found.append((optimizer, attempts[optimizer]))
            attempts[optimizer] += 1
        return found

    @property
    def settled_scale(self) -> float | None:
        """A loss scale that did not overflow, or is well below those that did; None where no
        scaler is used.
        """
        fitting = [
            scale
            for scale, taken in zip(self.scales, self.taken, strict=False)
            if taken
        ]
        if fitting:
            return fitting[-1]
        return max(self.scales[-1] * 2.0**-6, 1.0) if self.scales else None

    @property
    def steps_per_second(self) -> float | None:
        """By the median time of a step, after the warm-up; None where too little was timed."""
        if len(self.step_seconds) < 3:
            return None
        middle = sorted(self.step_seconds)[len(self.step_seconds) // 2]
        return 1.0 / middle if middle > 0 else None

    def write(self, path: Path) -> None:
        """As JSON, in one replacement, so that a reader never meets half a trace."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")
        part.replace(path)

    @classmethod
    def read(cls, path: Path) -> Trace:
        """The trace written to `path`."""
        data = json.loads(path.read_text(encoding="utf-8"))
        data["violations"] = [
            Violation(**violation) for violation in data["violations"]
        ]
        data["places"] = {
            name: [
                Place(**{**row, "floats": tuple(row["floats"])}) for row in rows
            ]
            for name, rows in data["places"].items()
        }
        return cls(**data)


def finite(value: Any) -> Any:
    """`value` for strict JSON: what is not finite becomes None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return (
        [finite(item) for item in value]
        if isinstance(value, (list, tuple))
        else value
    )
