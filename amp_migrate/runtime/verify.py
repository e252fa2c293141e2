"""The original against the rewritten program: which runs are made, in which order, and what is asked of them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amp_migrate.runtime import checks
from amp_migrate.runtime.checks import Check, Runs
from amp_migrate.runtime.compare import same_parameters
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.speed import memory_checks, speed_checks
from amp_migrate.runtime.supervise import Limits, Supervisor, Watch
from amp_migrate.runtime.trace import Trace, finite

REFERENCE_STEPS = 2
DRILL_STEPS = 6
MOST_SUSPECTS = 3


@dataclass(frozen=True)
class Program:
    """What is verified. `rewrites`: real path -> rewritten text, per dtype."""

    program: str
    arguments: tuple[str, ...]
    as_module: bool
    rewrites: Mapping[str, Mapping[str, str]]
    cwd: Path


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
    limits: checks.Limits = field(default_factory=checks.Limits)


@dataclass
class Report:
    """The outcome. `runs` also holds runs that failed."""

    options: Options
    checks: list[Check] = field(default_factory=list)
    runs: Runs = field(default_factory=Runs)
    notes: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def verdict(self) -> str:
        """`pass` where no check failed."""
        return "fail" if any(check.verdict == "fail" for check in self.checks) else "pass"

    def as_json(self) -> dict[str, Any]:
        """By the contract; numbers that are not finite are null."""
        runs = {name: _summary(trace) for name, trace in self.runs.traces.items()}
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


def _files(folder: Path) -> dict[Path, int]:
    """Files of `folder` and its subfolders (no deeper: it may be large), with the time of their last change."""
    found: dict[Path, int] = {}
    for path in itertools.islice(itertools.chain(folder.glob("*"), folder.glob("*/*")), 10_000):
        with contextlib.suppress(OSError):
            if path.is_file():
                found[path] = path.stat().st_mtime_ns
    return found


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)[:100]


def _summary(trace: Trace) -> dict[str, Any]:
    return {
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
        "probe_share": trace.probe_seconds / trace.total_seconds if trace.total_seconds else None,
        "violations": [dataclasses.asdict(violation) for violation in trace.violations],
        "diagnosis": trace.diagnosis,
    }


class Verifier:
    """Makes the runs one after the other; the report grows with them, so that an interruption loses nothing."""

    def __init__(self, program: Program, options: Options, supervisor: Supervisor) -> None:
        self.program = program
        self.options = options
        self.report = Report(options)
        self._supervisor = supervisor
        self._folder = Path()

    def run(self) -> Report:
        """All runs and checks. After KeyboardInterrupt `report` holds what was measured."""
        with tempfile.TemporaryDirectory(prefix="amp-migrate-") as folder:
            self._folder = Path(folder)
            before = _files(self.program.cwd)
            try:
                self._all()
            finally:
                self._tell_written(before)
        return self.report

    def _tell_written(self, before: dict[Path, int]) -> None:
        """Whatever is new in the user's folder, the program has written."""
        after = _files(self.program.cwd)
        written = [str(path.relative_to(self.program.cwd)) for path in after if before.get(path) != after[path]]
        if written:
            told = ", ".join(sorted(written)[:5]) + (f" and {len(written) - 5} more" if len(written) > 5 else "")
            self.report.notes.append(f"the program itself wrote {told} here; --scratch has it write into copies")

    def _all(self) -> None:
        if not (self._float32() and self._off()):
            return
        if self.options.device == "cuda":
            self._run("tf32", tf32=True)
        for dtype in self.program.rewrites:
            self._amp(dtype)
        self._speed()
        self._probe_cost()

    def _probe_cost(self) -> None:
        trace = self.report.runs["original"]
        if trace.total_seconds:
            share = trace.probe_seconds / trace.total_seconds
            each = 1e3 * trace.probe_seconds / max(trace.steps - 1, 1)
            self.report.notes.append(f"measuring took {share:.1%} of the original's time, {each:.2f} ms per step")

    def _run(self, name: str, **changes: Any) -> Trace:
        """One run, kept under `name` in the report unless it is an auxiliary one (its name has a space)."""
        options = self.options
        folder = self._folder / _slug(name)
        job = Job(
            name=name, program=self.program.program, folder=str(folder), cwd=str(self._cwd(folder)),
            arguments=self.program.arguments, as_module=self.program.as_module, device=options.device,
            seed=options.seed, steps=options.steps, warmup=min(5, options.steps // 4),
            record_gradients=REFERENCE_STEPS,
        )  # fmt: skip
        traces = self._supervisor.run(self._moved(dataclasses.replace(job, **changes)))
        for trace in traces:
            self._as_here(trace, job.cwd)
        if " " not in name:
            self.report.runs.traces[name] = traces[0]
        if options.processes > 1 and all(trace.steps for trace in traces):
            self.report.checks.append(checks.ranks(name, traces))
        return traces[0]

    def _moved(self, job: Job) -> Job:
        """The job with its rewritten files where they are in a scratch copy, too."""
        here = os.path.realpath(self.program.cwd) + os.sep
        inside = {path: text for path, text in job.rewrites.items() if path.startswith(here)}
        there = {os.path.realpath(Path(job.cwd, path.removeprefix(here))): text for path, text in inside.items()}
        return dataclasses.replace(job, rewrites={**job.rewrites, **there})

    def _as_here(self, trace: Trace, cwd: str) -> None:
        """Call the files of a scratch copy by the names that the user knows."""
        here = str(self.program.cwd)
        trace.loss_sites = [site.replace(cwd, here, 1) for site in trace.loss_sites]
        trace.violations = [dataclasses.replace(v, file=v.file.replace(cwd, here, 1)) for v in trace.violations]
        trace.error = trace.error.replace(cwd, here)

    def _cwd(self, folder: Path) -> Path:
        if not self.options.scratch:
            return self.program.cwd
        copy = folder / "scratch"
        shutil.copytree(self.program.cwd, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        return copy

    def _tensors(self, name: str) -> Path:
        return self._folder / _slug(name) / "rank0"

    def _float32(self) -> bool:
        """The original, twice; False where there is nothing to compare with."""
        first = self._run("original")
        check = checks.completed("original", first, None)
        self.report.checks.append(check)
        if check.verdict == "fail":
            return False
        again = self._run("original-again")
        self.report.checks.append(checks.completed("original-again", again, first))
        if self.report.checks[-1].verdict == "fail":
            return False
        self.report.checks.append(checks.reproducible(self.report.runs))
        return True

    def _off(self) -> bool:
        rewrites = next(iter(self.program.rewrites.values()))
        off = self._run("amp-off", rewrites=dict(rewrites), switch=False)
        check = checks.completed("amp-off", off, self.report.runs["original"])
        self.report.checks.append(check)
        if not off.steps:
            return False
        self._parameter_differences()
        self.report.checks.extend(checks.amp_off(self.report.runs))
        return True

    def _parameter_differences(self) -> None:
        runs = self.report.runs
        if same_parameters(runs["original"], runs["amp-off"]):
            return
        from amp_migrate.runtime.gradients import largest_parameter_difference

        base = self._tensors("original")
        runs.parameter_noise = largest_parameter_difference(base, self._tensors("original-again"))
        runs.parameter_difference = largest_parameter_difference(base, self._tensors("amp-off"))

    def _amp(self, dtype: str) -> None:
        name = "amp" if dtype == next(iter(self.program.rewrites)) else f"amp-{dtype}"
        rewrites, runs = dict(self.program.rewrites[dtype]), self.report.runs
        if "perturbed" not in runs:
            self._run("perturbed", perturb=2.0**-10)
            runs.distances["perturbed"] = self._distances("perturbed", against_float64=False)
        switch = True if self.options.device == "cpu" else None
        how = {"rewrites": rewrites, "switch": switch, "dtype": dtype}
        trace = self._run(name, drills=("checkpoint",) if self.options.drills else (), **how)
        self.report.checks.append(checks.completed(name, trace, runs["original"]))
        if not trace.steps:
            return
        self._reference(name, how)
        self.report.checks.extend(checks.amp_on(runs, name, self.options.limits))
        if self.options.drills and trace.dtype == "float16":
            scale = trace.scales[-1] if trace.scales else None
            drilled = self._run(f"{name} drill", steps=DRILL_STEPS, drills=("overflow",), init_scale=scale, **how)
            self.report.checks.extend(checks.drills(name, drilled.drills))
        if self.options.diagnose and self._failed(name):
            self._diagnose(name, how)

    def _reference(self, name: str, how: dict[str, Any]) -> None:
        """The first gradients. Where the first steps were skipped they are taken again at the scale found later."""
        from amp_migrate.runtime.explain import underflow
        from amp_migrate.runtime.gradients import first_loss_agrees

        runs, source = self.report.runs, name
        if False in runs[name].taken[: 2 * REFERENCE_STEPS] and runs[name].scales:
            source = f"{name} gradients"
            self._run(source, steps=REFERENCE_STEPS, init_scale=runs[name].scales[-1], **how)
        if not runs.reference:
            double = self._run("float64 reference", float64=True, steps=REFERENCE_STEPS)
            agrees = first_loss_agrees(runs["original"].losses, double.losses)
            runs.reference = "float64" if agrees else "the program does not run in float64"
        runs.distances[name] = self._distances(source)
        runs.underflow[name] = underflow(self._truth(), self._tensors(source))

    def _truth(self) -> Path:
        return self._tensors("float64 reference" if self.report.runs.reference == "float64" else "original")

    def _distances(self, source: str, against_float64: bool = True) -> list[Any]:
        from amp_migrate.runtime.gradients import distances

        reference = self._truth() if against_float64 and self.report.runs.reference == "float64" else None
        return distances(self._tensors("original"), self._tensors(source), reference)

    def _failed(self, name: str) -> bool:
        return any(check.verdict == "fail" and check.name.partition(": ")[0] == name for check in self.report.checks)

    def _diagnose(self, name: str, how: dict[str, Any]) -> None:
        """One slow run that looks into every module, and with --bisect one more for each suspect."""
        from amp_migrate.runtime import explain

        trace = self._run(f"{name} diagnosis", diagnose=True, **how)
        self.report.runs[name].diagnosis = trace.diagnosis
        self._run("float64 diagnosis", diagnose=True, float64=True, steps=1)
        errors = explain.module_errors(self._tensors("float64 diagnosis"), self._tensors(f"{name} diagnosis"))
        lost = self.report.runs.underflow.get(name, [])
        self.report.advice.extend(explain.advice(trace, errors, lost))
        if self.options.bisect:
            self._bisect(name, explain.suspects(trace, errors), how)

    def _bisect(self, name: str, suspects: list[str], how: dict[str, Any]) -> None:
        """Try the advice: the suspects in float32, one more at a time."""
        runs = self.report.runs
        for count in range(1, len(suspects[:MOST_SUSPECTS]) + 1):
            chosen = tuple(suspects[:count])
            trial = f"{name} with {', '.join(chosen)} in float32"
            trace = self._run(trial, float32_modules=chosen, **how)
            tried = Runs({**runs.traces, "trial": trace}, dict(runs.distances), reference=runs.reference)
            tried.distances["trial"] = self._distances(trial) if trace.steps else []
            found = [checks.completed("trial", trace, runs["original"])]
            found += checks.amp_on(tried, "trial", self.options.limits) if trace.steps else []
            bad = [check.name.partition(": ")[2] for check in found if check.verdict == "fail"]
            self.report.advice.append(f"tried: {trial} {'fails ' + ', '.join(bad) if bad else 'passes'}")
            if not bad:
                return

    def _speed(self) -> None:
        runs, limits = self.report.runs, self.options.limits
        self.report.checks.extend(speed_checks(runs, self.options.device, limits))
        self.report.checks.extend(memory_checks(runs, self.options.device))


def verify(program: Program, options: Options, watch: Watch) -> Verifier:
    """Verify with a supervisor of its own; the returned verifier's report is whole unless KeyboardInterrupt came."""
    limits = Limits(options.timeout, options.processes)
    with Supervisor(limits, options.seed, options.device, watch) as supervisor:
        verifier = Verifier(program, options, supervisor)
        try:
            verifier.run()
        except KeyboardInterrupt:
            verifier.report.interrupted = True
            verifier.report.notes.append("interrupted; these are the checks that were finished")
    return verifier


def default_device() -> str:
    """`cuda` where torch has one, asked in a way that leaves no CUDA context in this process."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
