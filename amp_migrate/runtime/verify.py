"""The original against the rewritten program: which runs are made, in which order, and what is
asked of them.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from amp_migrate.runtime import checks
from amp_migrate.runtime.check import Check
from amp_migrate.runtime.checks import Runs
from amp_migrate.runtime.endings import (
    completed,
    drilled,
    how,
    not_verified,
    same_shapes,
)
from amp_migrate.runtime.gradient_checks import COARSER, gradients
from amp_migrate.runtime.metric_runs import compare_metric
from amp_migrate.runtime.parameters import note_differences
from amp_migrate.runtime.pays import pays
from amp_migrate.runtime.ranks import agree, merged
from amp_migrate.runtime.remedy import Remedy
from amp_migrate.runtime.report import Options, Program, Report
from amp_migrate.runtime.resumption import compare_resumed
from amp_migrate.runtime.runner import REFERENCE_STEPS, Runner
from amp_migrate.runtime.settling import settle
from amp_migrate.runtime.speed import memory_checks, speed_checks
from amp_migrate.runtime.supervise import Limits, Supervisor, Watch
from amp_migrate.runtime.trace import Trace

DRILL_STEPS = 6
HALF_ROUNDING = 2.0**-11
MOST_REPEATS = 4


class Verifier:
    """Makes the runs one after the other; the report grows with them, so that an interruption
    loses nothing.
    """

    def __init__(
        self,
        program: Program,
        options: Options,
        supervisor: Supervisor,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._tell = tell
        self.program = program
        self.options = options
        self.report = Report(
            options, others=[Runs() for _ in range(options.processes - 1)]
        )
        self._supervisor = supervisor
        self._runner = Runner(program, options, supervisor, Path())
        self._ways: dict[str, dict[str, Any]] = {}
        self._single = "original"

    def run(self) -> Report:
        """All runs and checks. After KeyboardInterrupt `report` holds what was measured."""
        with tempfile.TemporaryDirectory(prefix="amp-migrate-") as folder:
            self._runner = Runner(
                self.program, self.options, self._supervisor, Path(folder)
            )
            with (
                self._runner.telling_written(self.report.notes),
                self._whole("verify"),
            ):
                self._all()
        return self.report

    def _all(self) -> None:
        if not (self._float32() and self._off()):
            return
        if self.options.device == "cuda" and not self.options.quick:
            self._run("tf32", tf32=True)
        for dtype in self.program.rewrites:
            self._amp(dtype)
        for dtype, texts in self.program.rewrites.items():
            self._to_the_end(
                self._name(dtype), {"rewrites": dict(texts), "dtype": dtype}
            )
        with self._whole("speed"):
            self._speed()
        self._probe_cost()

    def _to_the_end(self, name: str, ways: dict[str, Any]) -> None:
        """Questions for which the program is run whole."""
        if self.options.metric is not None:
            with self._whole("metric"):
                compare_metric(
                    self.report, self._run, self._tensors, name, ways
                )
        if self.options.resume is not None:
            with self._whole("resume"):
                compare_resumed(self.report, self._run, name, ways)

    @contextlib.contextmanager
    def _whole(self, what: str) -> Iterator[None]:
        """What cannot be compared is a failure, and has a name."""
        try:
            yield
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            told = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            message = f"this could not be compared; {told}"
            self.report.checks.append(
                Check(
                    f"{what}: comparison",
                    "fail",
                    type(error).__name__,
                    None,
                    message,
                )
            )

    def _probe_cost(self) -> None:
        trace = self.report.runs["original"]
        if trace.total_seconds:
            share = trace.probe_seconds / trace.total_seconds
            each = 1e3 * trace.probe_seconds / max(trace.steps - 1, 1)
            self.report.notes.append(
                f"measuring took {share:.1%} of the original's time, {each:.2f} ms per step"
            )

    def _run(self, name: str, **changes: Any) -> Trace:
        """One run, kept under `name` in the report unless it is an auxiliary one (its name has a
        space).
        """
        traces = self._runner.run(name, **changes)
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
        done = self._ask(
            lambda runs: completed(
                name, runs[name], runs[original] if original else None
            )
        )
        if self.report.others and all(
            runs[name].steps for runs in self.report.ranks
        ):
            self.report.checks.append(agree(name, self.report.ranks))
        return done

    def _tensors(self, name: str, rank: int = 0) -> Path:
        return self._runner.tensors(name, rank)

    def _float32(self) -> bool:
        """The original, twice; False where there is nothing to compare with."""
        self._supervisor.start()
        began = time.monotonic()
        self._run("original")
        if not self._completed("original", None):
            return False
        self._estimate(time.monotonic() - began)
        if self.options.quick:
            self._runner.seeds = tuple(self.report.runs["original"].seeds)
            return True
        self._run("original-again")
        self._repeat_seeds()
        if not self._completed("original-again"):
            return False
        if (
            self.report.runs.unseeded
        ):  # one difference of two runs is no measure
            self._repeat()
            self._repeat()
        self._ask(lambda runs: [checks.reproducible(runs)])
        return True

    def _repeat(self) -> None:
        """The original once more: how far its runs are apart is what the others are held to."""
        count = len(self.report.runs.repeats)
        self._run(f"original-again-{count + 1}" if count else "original-again")

    def _estimate(self, seconds: float) -> None:
        """What the runs to come will take, by the first; those with AMP on cost more on a CPU."""
        each = 1 if self.options.quick else 3 + self.options.drills
        count = 1 + (not self.options.quick) + each * len(self.program.rewrites)
        slower = 2 if self.options.device == "cpu" else 1
        low, high = count * seconds, slower * count * seconds
        told = f"{low:.0f} s" if low == high else f"{low:.0f} to {high:.0f} s"
        self._tell(
            f"the original took {seconds:.0f} s; about {count} runs to go, {told}"
        )

    def _repeat_seeds(self) -> None:
        """A program that seeds itself anew in every run is given the seeds of its first."""
        runs = self.report.runs
        if runs["original"].seeds == runs["original-again"].seeds:
            return
        self._runner.seeds = tuple(runs["original"].seeds)
        self._run("original-again")
        self.report.notes.append(
            "the program takes new seeds in every run; all runs were given those of the first"
        )

    def _off(self) -> bool:
        rewrites = next(iter(self.program.rewrites.values()))
        off = self._run("amp-off", rewrites=dict(rewrites), switch=False)
        self._completed("amp-off")
        if not off.steps:
            return False
        with self._whole("amp-off"):
            self._measure_off()
            while self._off_fails() and self._may_repeat():
                self._repeat()
                self._measure_off()
            self._ask(checks.amp_off)
        return True

    def _measure_off(self) -> None:
        for rank, runs in enumerate(self.report.ranks):
            note_differences(runs, functools.partial(self._tensors, rank=rank))

    def _off_fails(self) -> bool:
        found = [
            check
            for runs in self.report.ranks
            for check in checks.amp_off(runs)
        ]
        return any(check.verdict == "fail" for check in found)

    def _may_repeat(self) -> bool:
        """Whether the original is known not to repeat itself, or not known to, and was not run
        often yet.
        """
        runs = self.report.runs
        repeats = any(checks.is_repeated(each) for each in self.report.ranks)
        return len(runs.repeats) < MOST_REPEATS and not (
            runs.repeats and repeats
        )

    def _amp(self, dtype: str) -> None:
        name = self._name(dtype)
        rewrites, runs = dict(self.program.rewrites[dtype]), self.report.runs
        if "perturbed" not in runs and not self.options.quick:
            self._run("perturbed", perturb=2.0**-10)
        ways: dict[str, Any] = {"rewrites": rewrites, "dtype": dtype}
        drills = ("checkpoint",) if self.options.drills else ()
        trace = self._run(name, drills=drills, mark_lines=True, **ways)
        self._completed(name)
        if not trace.steps:
            return
        self.report.notes.extend(not_verified(trace))
        if trace.left_out and not (self.options.quick and self._inside(name)):
            self._run(f"float32-as-{name}", left_out=tuple(trace.left_out))
        settle(
            name,
            trace,
            self.options.steps,
            functools.partial(self._run, **ways),
        )
        with self._whole(name):
            self._ask(
                lambda each: checks.amp_on(each, name, self.options.limits)
            )
        if not self.options.quick:
            with self._whole(f"{name}: gradients"):
                self._gradients(name, ways)
        if self.options.drills and trace.dtype == "float16":
            scale = runs.latest(name).settled_scale
            drill = self._run(
                f"{name} drill",
                steps=DRILL_STEPS,
                drills=("overflow",),
                init_scale=scale,
                **ways,
            )
            self.report.checks.extend(drilled(name, drill, "overflow drill"))
        if self.options.diagnose and self._failed(name):
            with self._whole(f"{name}: diagnosis"):
                Remedy(self.report, self._run, self._tensors, self._error).look(
                    name, ways
                )

    def _inside(self, name: str) -> bool:
        """Whether the loss is where it should be though steps were skipped: then the run that would
        excuse them is not needed.
        """
        limits = self.options.limits
        found = [
            checks.loss_curve(runs, name, limits) for runs in self.report.ranks
        ]
        return all(check.verdict == "pass" for check in found)

    def _gradients(self, name: str, ways: dict[str, Any]) -> None:
        from amp_migrate.runtime.gradients import distances

        runs = self.report.runs
        if not same_shapes(runs["original"], runs[name]):
            return  # said by its own check; there is no gradient to hold against another
        if "perturbed" not in runs.distances:
            runs.distances["perturbed"] = distances(
                self._tensors("original"), self._tensors("perturbed"), None
            )
        self._reference(name, ways)
        self.report.checks.extend(gradients(runs, name, self.options.limits))

    def _first_gradients(
        self, name: str, trace: Trace, ways: dict[str, Any]
    ) -> str:
        """The run that has them: where a first step was skipped, one at a scale that fits."""
        from amp_migrate.runtime.gradients import first_steps_kept

        source, scale = name, trace.settled_scale
        while scale is not None and not first_steps_kept(
            self._tensors("original"), self._tensors(source)
        ):
            if source != name and scale <= 1:
                break
            scale = max(scale / 16, 1.0)
            source = f"{name} gradients at {scale:g}"
            self._run(source, steps=REFERENCE_STEPS, init_scale=scale, **ways)
        return source

    def _reference(self, name: str, ways: dict[str, Any]) -> None:
        """The gradients of the first steps, and what they are held against."""
        from amp_migrate.runtime.explain import underflow

        runs = self.report.runs
        source = self._first_gradients(name, runs[name], ways)
        if not runs.reference:
            runs.reference = self._float64(self._exact())
            if runs.reference != "float64":
                self.report.notes.append(
                    f"no float64 reference: {runs.reference}; the gradients are held against "
                    "float32 runs with disturbed parameters"
                )
        runs.distances[name] = self._distances(source)
        runs.underflow[name] = underflow(self._truth(), self._tensors(source))

    def _float64(self, single: Trace) -> str:
        """`float64`, or why the program's gradients are not to be had in float64."""
        from amp_migrate.runtime.gradients import (
            first_loss_agrees,
            same_gradients,
        )

        double = self._run(
            "float64 reference", float64=True, steps=REFERENCE_STEPS
        )
        if not double.losses or double.status not in ("stopped", "finished"):
            return f"the program does not run in float64 ({how(double)})"
        if not first_loss_agrees(single.losses, double.losses):
            return "its first loss is not that of float32, so other random numbers were drawn"
        if not same_gradients(
            self._tensors(self._single), self._tensors("float64 reference")
        ):
            return "it has the gradients of other parameters"
        return "float64"

    def _exact(self) -> Trace:
        """The run that tells float32's own error: on a GPU the original's convolutions use TF32
        unless told not to.
        """
        if self.options.device == "cuda":
            exact = self._run(
                "float32 gradients", exact=True, steps=REFERENCE_STEPS
            )
            if exact.steps:
                self._single = "float32 gradients"
                return exact
        return self.report.runs["original"]

    def _truth(self) -> Path:
        return self._tensors(
            "float64 reference"
            if self.report.runs.reference == "float64"
            else self._single
        )

    def _error(
        self, name: str, trace: Trace, ways: dict[str, Any]
    ) -> list[Any]:
        return self._distances(self._first_gradients(name, trace, ways))

    def _distances(self, source: str) -> list[Any]:
        """From the reference; where there is none, from the float32 run, and its error is that of a
        run whose parameters were rounded to half before the first step.
        """
        from amp_migrate.runtime.gradients import distances, rounded_as

        if self.report.runs.reference == "float64":
            return distances(
                self._tensors(self._single),
                self._tensors(source),
                self._truth(),
            )
        if not self._tensors("float32 rounded").exists():
            self._run(
                "float32 rounded",
                perturb=HALF_ROUNDING,
                perturb_first=True,
                steps=1,
            )
        rounded, single = (
            self._tensors("float32 rounded"),
            self._tensors(self._single),
        )
        found = distances(rounded, self._tensors(source), single)
        return [rounded_as(one, 1 / COARSER) for one in found]

    def _failed(self, name: str) -> bool:
        return any(
            check.verdict == "fail" and check.name.partition(": ")[0] == name
            for check in self.report.checks
        )

    def _name(self, dtype: str) -> str:
        return (
            "amp"
            if dtype == next(iter(self.program.rewrites))
            else f"amp-{dtype}"
        )

    def _speed(self) -> None:
        runs, limits = self.report.runs, self.options.limits
        self._time_again()
        self.report.checks.extend(
            speed_checks(runs, self.options.device, limits)
        )
        self.report.checks.extend(memory_checks(runs, self.options.device))
        if self.options.device != "cpu":
            self.report.advice.extend(pays(runs))

    def _time_again(self) -> None:
        """Programs with dropout, on a GPU: their times without what made their losses
        comparable.
        """
        runs = self.report.runs
        timed = [
            name
            for name in ("original", "original-again", "tf32", *runs.amp())
            if name in runs
        ]
        if not any(runs[name].masks for name in timed):
            return
        for name in timed:
            again = self._run(
                f"{name} timed",
                **{**self._ways[name], "same_masks": False, "drills": ()},
            )
            runs[name].step_seconds, runs[name].peak_memory_bytes = (
                again.step_seconds,
                again.peak_memory_bytes,
            )


def verify(program: Program, options: Options, watch: Watch) -> Verifier:
    """Verify with a supervisor of its own; the returned verifier's report is whole unless
    KeyboardInterrupt came.
    """
    limits = Limits(options.timeout, options.processes)
    with Supervisor(limits, options.seed, options.device, watch) as supervisor:
        verifier = Verifier(
            program, options, supervisor, getattr(watch, "tell", lambda _: None)
        )
        try:
            verifier.run()
        except KeyboardInterrupt:
            verifier.report.interrupted = True
            message = "interrupted; the others are the checks that were finished before"
            verifier.report.checks.append(
                Check("complete", "fail", "interrupted", None, message)
            )
    return verifier
