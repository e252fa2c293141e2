"""The original against the rewritten program: which runs are made, in which order, and what is asked of them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from amp_migrate.runtime import checks
from amp_migrate.runtime.checks import Check, Runs
from amp_migrate.runtime.compare import same_parameters
from amp_migrate.runtime.gradient_checks import gradients
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.ranks import agree, merged
from amp_migrate.runtime.report import Options, Program, Report
from amp_migrate.runtime.speed import memory_checks, speed_checks
from amp_migrate.runtime.supervise import Limits, Supervisor, Watch
from amp_migrate.runtime.trace import Trace

REFERENCE_STEPS = 2
DRILL_STEPS = 6
MOST_SUSPECTS = 3


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


class Verifier:
    """Makes the runs one after the other; the report grows with them, so that an interruption loses nothing."""

    def __init__(self, program: Program, options: Options, supervisor: Supervisor) -> None:
        self.program = program
        self.options = options
        self.report = Report(options, others=[Runs() for _ in range(options.processes - 1)])
        self._supervisor = supervisor
        self._folder = Path()
        self._ways: dict[str, dict[str, Any]] = {}
        self._single = "original"

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
            record_gradients=REFERENCE_STEPS, same_masks=options.device == "cuda",
        )  # fmt: skip
        traces = self._supervisor.run(self._moved(dataclasses.replace(job, **changes)))
        for trace in traces:
            self._as_here(trace, job.cwd)
        if " " not in name:
            self._ways[name] = changes
            for runs, trace in zip(self.report.ranks, traces, strict=True):
                runs.traces[name] = trace
        return traces[0]

    def _ask(self, question: Callable[[Runs], Iterable[Check]]) -> bool:
        """Put the question to each rank and keep the answers; whether none failed."""
        found = list(merged([question(runs) for runs in self.report.ranks]))
        self.report.checks.extend(found)
        return not any(check.verdict == "fail" for check in found)

    def _completed(self, name: str, original: str | None = "original") -> bool:
        """The run came to its end on every rank, and the ranks agree."""
        done = self._ask(lambda runs: [checks.completed(name, runs[name], runs[original] if original else None)])
        if self.report.others and all(runs[name].steps for runs in self.report.ranks):
            self.report.checks.append(agree(name, self.report.ranks))
        return done

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

    def _tensors(self, name: str, rank: int = 0) -> Path:
        return self._folder / _slug(name) / f"rank{rank}"

    def _float32(self) -> bool:
        """The original, twice; False where there is nothing to compare with."""
        self._run("original")
        if not self._completed("original", None):
            return False
        self._run("original-again")
        if not self._completed("original-again"):
            return False
        self._ask(lambda runs: [checks.reproducible(runs)])
        return True

    def _off(self) -> bool:
        rewrites = next(iter(self.program.rewrites.values()))
        off = self._run("amp-off", rewrites=dict(rewrites), switch=False)
        self._completed("amp-off")
        if not off.steps:
            return False
        for rank, runs in enumerate(self.report.ranks):
            self._parameter_differences(rank, runs)
        self._ask(checks.amp_off)
        return True

    def _parameter_differences(self, rank: int, runs: Runs) -> None:
        if same_parameters(runs["original"], runs["amp-off"]) or not runs["amp-off"].steps:
            return
        from amp_migrate.runtime.gradients import largest_parameter_difference

        base = self._tensors("original", rank)
        runs.parameter_noise = largest_parameter_difference(base, self._tensors("original-again", rank))
        runs.parameter_difference = largest_parameter_difference(base, self._tensors("amp-off", rank))

    def _amp(self, dtype: str) -> None:
        name = "amp" if dtype == next(iter(self.program.rewrites)) else f"amp-{dtype}"
        rewrites, runs = dict(self.program.rewrites[dtype]), self.report.runs
        if "perturbed" not in runs:
            self._run("perturbed", perturb=2.0**-10)
            runs.distances["perturbed"] = self._distances("perturbed", against_float64=False)
        switch = True if self.options.device == "cpu" else None
        how = {"rewrites": rewrites, "switch": switch, "dtype": dtype}
        trace = self._run(name, drills=("checkpoint",) if self.options.drills else (), **how)
        self._completed(name)
        if not trace.steps:
            return
        self._reference(name, how)
        self._ask(lambda each: checks.amp_on(each, name, self.options.limits))
        self.report.checks.extend(gradients(runs, name, self.options.limits))
        if self.options.drills and trace.dtype == "float16":
            scale = trace.settled_scale
            drilled = self._run(f"{name} drill", steps=DRILL_STEPS, drills=("overflow",), init_scale=scale, **how)
            self.report.checks.extend(checks.drills(name, drilled.drills))
        if self.options.diagnose and self._failed(name):
            self._diagnose(name, how)

    def _reference(self, name: str, how: dict[str, Any]) -> None:
        """The first gradients. Where a first step was skipped they are taken again, at scales that fit."""
        from amp_migrate.runtime.explain import underflow
        from amp_migrate.runtime.gradients import first_loss_agrees, first_steps_kept

        runs, source = self.report.runs, name
        scale = runs[name].settled_scale
        while scale is not None and not first_steps_kept(self._tensors("original"), self._tensors(source)):
            if source != name and scale <= 1:
                break
            scale = max(scale / 16, 1.0)
            source = f"{name} gradients at {scale:g}"
            self._run(source, steps=REFERENCE_STEPS, init_scale=scale, **how)
        if not runs.reference:
            single = self._exact()
            double = self._run("float64 reference", float64=True, steps=REFERENCE_STEPS)
            agrees = first_loss_agrees(single.losses, double.losses)
            runs.reference = "float64" if agrees else "the program does not run in float64"
        runs.distances[name] = self._distances(source)
        runs.underflow[name] = underflow(self._truth(), self._tensors(source))

    def _exact(self) -> Trace:
        """The run that tells float32's own error: on a GPU the original's convolutions use TF32 unless told not to."""
        if self.options.device == "cuda":
            exact = self._run("float32 gradients", exact=True, steps=REFERENCE_STEPS)
            if exact.steps:
                self._single = "float32 gradients"
                return exact
        return self.report.runs["original"]

    def _truth(self) -> Path:
        return self._tensors("float64 reference" if self.report.runs.reference == "float64" else self._single)

    def _distances(self, source: str, against_float64: bool = True) -> list[Any]:
        from amp_migrate.runtime.gradients import distances

        if not against_float64:
            return distances(self._tensors("original"), self._tensors(source), None)
        reference = self._truth() if self.report.runs.reference == "float64" else None
        return distances(self._tensors(self._single), self._tensors(source), reference)

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
            if trace.steps:
                found += [*checks.amp_on(tried, "trial", self.options.limits)]
                found += gradients(tried, "trial", self.options.limits)
            bad = [check.name.partition(": ")[2] for check in found if check.verdict == "fail"]
            self.report.advice.append(f"tried: {trial} {'fails ' + ', '.join(bad) if bad else 'passes'}")
            if not bad:
                return

    def _speed(self) -> None:
        runs, limits = self.report.runs, self.options.limits
        self._time_again()
        self.report.checks.extend(speed_checks(runs, self.options.device, limits))
        self.report.checks.extend(memory_checks(runs, self.options.device))

    def _time_again(self) -> None:
        """Programs with dropout, on a GPU: their times without what made their losses comparable."""
        runs = self.report.runs
        timed = [name for name in ("original", "original-again", "tf32", *runs.amp()) if name in runs]
        if not any(runs[name].masks for name in timed):
            return
        for name in timed:
            again = self._run(f"{name} timed", **{**self._ways[name], "same_masks": False, "drills": ()})
            runs[name].step_seconds, runs[name].peak_memory_bytes = again.step_seconds, again.peak_memory_bytes


def verify(program: Program, options: Options, watch: Watch) -> Verifier:
    """Verify with a supervisor of its own; the returned verifier's report is whole unless KeyboardInterrupt came."""
    limits = Limits(options.timeout, options.processes)
    with Supervisor(limits, options.seed, options.device, watch) as supervisor:
        verifier = Verifier(program, options, supervisor)
        try:
            verifier.run()
        except KeyboardInterrupt:
            verifier.report.interrupted = True
            message = "interrupted; the others are the checks that were finished before"
            verifier.report.checks.append(Check("complete", "fail", "interrupted", None, message))
    return verifier


def default_device() -> str:
    """`cuda` where torch has one, asked in a way that leaves no CUDA context in this process."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
