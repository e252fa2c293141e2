"""The order for one run: plain data that goes from the parent to the child process as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """How to run a program once. `rewrites` is empty for the original."""

    name: str
    program: str
    folder: str
    """Where the trace and the gradients go."""
    cwd: str = "."
    arguments: tuple[str, ...] = ()
    as_module: bool = False
    rewrites: dict[str, str] = field(default_factory=dict)
    """Real path -> rewritten text."""
    shown: dict[str, str] = field(default_factory=dict)
    """Real path -> the file whose lines are told for it; else they are those of the original."""
    switch: bool | None = None
    """AMP forced on or off; None leaves it to the program."""
    device: str = "cpu"
    """Where it runs: `cpu` is a simulated GPU."""
    carried: bool = False
    """The program has no device code, and runs as if its default device were the GPU."""
    dtype: str = "float32"
    seed: int = 0
    seeds: tuple[tuple[int, ...], ...] = ()
    """For each rank, in the place of those that the program gives itself, in their order."""
    steps: int = 50
    warmup: int = 5
    tf32: bool = False
    exact: bool = False
    """No TF32 anywhere: torch allows it in convolutions by default."""
    float64: bool = False
    """Compute in float64 (the reference)."""
    same_masks: bool = False
    """On a GPU, have dropout draw its masks apart from the dtype (see `masks`)."""
    perturb: float = 0.0
    """Relative size of a disturbance of the parameters before the first step."""
    perturb_first: bool = False
    """It comes when the optimizer is made, so that the first gradients have it already."""
    left_out: tuple[tuple[int, int], ...] = ()
    """Steps that are not taken: index of the optimizer, and of its attempt."""
    init_scale: float | None = None
    record_gradients: int = 0
    """For so many attempts of each optimizer the gradients are kept."""
    mark_lines: bool = False
    """Note which lines of the rewritten files are entered."""
    watch_saves: bool = False
    """Note where checkpoints are saved, and how far the scaler is."""
    stop_at_save: int = 0
    """Stop at the first backward after so many checkpoints."""
    metric: str = ""
    """Note values of this name that are written to TensorBoard, or returned."""
    drills: tuple[str, ...] = ()
    diagnose: bool = False

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Job:
        """The job written to `path`."""
        data = json.loads(path.read_text(encoding="utf-8"))
        tuples: dict[str, Any] = {
            name: tuple(data[name]) for name in ("arguments", "drills")
        }
        tuples["seeds"] = tuple(map(tuple, data["seeds"]))
        tuples["left_out"] = tuple(
            (optimizer, attempt) for optimizer, attempt in data["left_out"]
        )
        return cls(**{**data, **tuples})
