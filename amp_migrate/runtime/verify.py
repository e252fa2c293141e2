"""The original against the rewritten program: which runs are made, in which order, and what is
asked of them.
"""

from __future__ import annotations

import contextlib
import functools
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from amp_migrate.pipeline.interrupts import termination_as_interrupt
from amp_migrate.runtime import checks
from amp_migrate.runtime.check import Check
from amp_migrate.runtime.endings import (
    completed,
    drilled,
    not_verified,
)
from amp_migrate.runtime.gradient_runs import GradientRuns
from amp_migrate.runtime.loss_checks import loss_curve
from amp_migrate.runtime.metric_runs import compare_metric
from amp_migrate.runtime.parameters import note_differences
from amp_migrate.runtime.pays import pays
from amp_migrate.runtime.ranks import agree, merged
from amp_migrate.runtime.remedy import Remedy
from amp_migrate.runtime.report import Options, Program, Report
from amp_migrate.runtime.resumption import compare_resumed
from amp_migrate.runtime.run_folder import run_folder
from amp_migrate.runtime.runner import Runner
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.settling import settle
from amp_migrate.runtime.speed import memory_checks, speed_checks
from amp_migrate.runtime.supervise import Limits, Supervisor, Watch
from amp_migrate.runtime.trace import Trace

DRILL_STEPS = 6
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
        self._gradients = GradientRuns(self.report, self._run, self._tensors)

    def run(self) -> Report:
        """All runs and checks. After KeyboardInterrupt `report` holds what was measured."""
        with run_folder() as folder:
            self._runner = Runner(
                self.program, self.options, self._supervisor, folder
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
            self._runner.seeds = self.report.seeds()
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
        told += self._whole_runs()
        self._tell(
            f"the original took {seconds:.0f} s; about {count} runs to go, {told}"
        )

    def _whole_runs(self) -> str:
        """Those to the program's end, which may be far beyond the steps that were timed."""
        options, ways = self.options, len(self.program.rewrites)
        metric = 2 * options.metric_seeds * (options.metric is not None)
        resumed = 4 * (options.resume is not None)
        count = ways * (metric + resumed)
        return f", and then {count} of the whole program" if count else ""

    def _repeat_seeds(self) -> None:
        """A program that seeds itself anew in every run is given the seeds of its first."""
        if self.report.seeds() == self.report.seeds("original-again"):
            return
        self._runner.seeds = self.report.seeds()
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
        ways = {"rewrites": dict(self.program.rewrites[dtype]), "dtype": dtype}
        if "perturbed" not in self.report.runs and not self.options.quick:
            self._run("perturbed", perturb=2.0**-10)
        trace = self._with_amp(name, ways)
        if not trace.steps:
            return
        self._let_scale_settle(name, trace, ways)
        with self._whole(name):
            self._ask(
                lambda each: checks.amp_on(each, name, self.options.limits)
            )
        if not self.options.quick:
            with self._whole(f"{name}: gradients"):
                self._gradients.compare(name, ways)
        if self.options.drills and trace.dtype == "float16":
            self._overflow_drill(name, ways)
        if self.options.diagnose and self._failed(name):
            self._diagnose(name, ways)

    def _with_amp(self, name: str, ways: dict[str, Any]) -> Trace:
        drills = ("checkpoint",) if self.options.drills else ()
        trace = self._run(name, drills=drills, mark_lines=True, **ways)
        self._completed(name)
        if trace.steps:
            self.report.notes.extend(not_verified(trace))
        return trace

    def _let_scale_settle(
        self, name: str, trace: Trace, ways: dict[str, Any]
    ) -> None:
        """Where steps were skipped: float32 without these, and AMP with more time for its scale."""
        if trace.left_out and not (self.options.quick and self._inside(name)):
            self._run(f"float32-as-{name}", left_out=tuple(trace.left_out))
        run = functools.partial(self._run, **ways)
        settle(name, trace, self.options.steps, run)

    def _overflow_drill(self, name: str, ways: dict[str, Any]) -> None:
        scale = self.report.runs.latest(name).settled_scale
        drill = self._run(
            f"{name} drill",
            steps=DRILL_STEPS,
            drills=("overflow",),
            init_scale=scale,
            **ways,
        )
        self.report.checks.extend(drilled(name, drill, "overflow drill"))

    def _diagnose(self, name: str, ways: dict[str, Any]) -> None:
        with self._whole(f"{name}: diagnosis"):
            error = self._gradients.error
            Remedy(self.report, self._run, self._tensors, error).look(
                name, ways
            )

    def _inside(self, name: str) -> bool:
        """Whether the loss is where it should be though steps were skipped: then the run that would
        excuse them is not needed.
        """
        limits = self.options.limits
        found = [loss_curve(runs, name, limits) for runs in self.report.ranks]
        return all(check.verdict == "pass" for check in found)

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
    with (
        termination_as_interrupt(),
        Supervisor(limits, options.seed, options.device, watch) as supervisor,
    ):
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
