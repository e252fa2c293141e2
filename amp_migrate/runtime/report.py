"""What verify is asked and what it answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amp_migrate.runtime.check import Check, Limits
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.trace import Trace, finite


@dataclass(frozen=True)
class Program:
    """What is verified. `rewrites`: real path -> rewritten text, per dtype."""

    program: str
    arguments: tuple[str, ...]
    as_module: bool
    rewrites: Mapping[str, Mapping[str, str]]
    cwd: Path
    carried: bool = False
    """It has no device code, and is to run with the GPU as its default device."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """Real path -> the file that the rewritten text is from, which the user knows by its lines."""


@dataclass(frozen=True)
class Options:
    """How it is verified."""

    device: str = "cpu"
    steps: int = 50
    seed: int = 0
    scratch: bool = False
    timeout: float | None = None
    processes: int = 1
    tf32: bool = False
    drills: bool = True
    diagnose: bool = True
    bisect: bool = False
    quick: bool = False
    """Three runs alone."""
    limits: Limits = field(default_factory=Limits)
    metric: str | None = None
    """A number that the program prints, writes to TensorBoard or returns, to be compared over
    `metric_seeds` seeds.
    """
    metric_seeds: int = 3
    metric_margin: float | None = None
    epochs: int | None = None
    resume: str | None = None
    """Arguments with which the program goes on from its last checkpoint."""


@dataclass
class Report:
    """The outcome. `runs` also holds runs that failed."""

    options: Options
    checks: list[Check] = field(default_factory=list)
    runs: Runs = field(default_factory=Runs)
    """Of rank 0, or of the only process."""
    others: list[Runs] = field(default_factory=list)
    """Of the ranks from 1 on."""
    notes: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    patched: dict[str, str] | None = None
    """The rewritten texts with the modules in float32 that it passes with, where that was asked."""
    interrupted: bool = False

    @property
    def ranks(self) -> list[Runs]:
        """One for each process."""
        return [self.runs, *self.others]

    def seeds(self, name: str = "original") -> tuple[tuple[int, ...], ...]:
        """Those that the program gave itself in a run, of each rank."""
        return tuple(tuple(runs[name].seeds) for runs in self.ranks)

    @property
    def verdict(self) -> str:
        """`pass` where no check failed and none is missing."""
        return (
            "fail"
            if self.interrupted
            or any(check.verdict == "fail" for check in self.checks)
            else "pass"
        )

    def as_json(self) -> dict[str, Any]:
        """By the contract; numbers that are not finite are null."""
        runs = {
            name: _summary([of[name] for of in self.ranks if name in of])
            for name in self.runs.traces
        }
        found = {
            "version": 1,
            "verdict": self.verdict,
            "checks": [dataclasses.asdict(check) for check in self.checks],
            "runs": runs,
            "notes": self.notes,
            "advice": self.advice,
        }
        result: dict[str, Any] = finite(found)
        return result


def counted(report: Report) -> str:
    """How many checks came out how: what was skipped has not passed."""
    told = [
        f"{number} {word}"
        for verdict, word in (
            ("fail", "failed"),
            ("pass", "passed"),
            ("skip", "skipped"),
        )
        if (number := sum(check.verdict == verdict for check in report.checks))
    ]
    return ", ".join(told) or "nothing was checked"


def _summary(ranks: list[Trace]) -> dict[str, Any]:
    trace = ranks[0]
    alone = len(ranks) == 1
    return {
        **(
            {}
            if alone
            else {
                "ranks": [
                    {"losses": one.losses, "skipped_steps": one.skipped_steps}
                    for one in ranks
                ]
            }
        ),
        "losses": trace.losses,
        "steps_per_second": trace.steps_per_second,
        "peak_memory_bytes": trace.peak_memory_bytes,
        "skipped_steps": trace.skipped_steps,
        "device": trace.device,
        "dtype": trace.dtype,
        "status": trace.status,
        "steps": trace.steps,
        "scales": trace.scales,
        "gradient_norms": trace.gradient_norms,
        "probe_share": trace.probe_seconds / trace.total_seconds
        if trace.total_seconds
        else None,
        "violations": [
            dataclasses.asdict(violation) for violation in trace.violations
        ],
        "diagnosis": trace.diagnosis,
    }
