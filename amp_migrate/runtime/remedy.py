"""What to do about a run that fails: one slow run that looks into every module, and the modules
that it needs in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amp_migrate.project.text import decode
from amp_migrate.runtime import checks
from amp_migrate.runtime.compare import same_losses, same_parameters
from amp_migrate.runtime.endings import completed
from amp_migrate.runtime.float32_search import Search, Texts
from amp_migrate.runtime.gradient_checks import gradients
from amp_migrate.runtime.report import Report
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.settling import settle
from amp_migrate.runtime.trace import Trace


@dataclass(frozen=True)
class Remedy:
    """Its answers go to `report`, as advice and as text."""

    report: Report
    run: Callable[..., Trace]
    tensors: Callable[[str], Path]
    distances: Callable[[str, Trace, dict[str, Any]], list[Any]]
    """Of a run's first gradients from the reference."""

    def look(self, name: str, ways: dict[str, Any]) -> None:
        """Advice on the run `name`, and with --bisect what it passes with."""
        from amp_migrate.runtime import explain

        trace = self.run(f"{name} diagnosis", diagnose=True, **ways)
        self.report.runs[name].diagnosis = trace.diagnosis
        self.run("float64 diagnosis", diagnose=True, float64=True, steps=1)
        errors = explain.module_errors(
            self.tensors("float64 diagnosis"), self.tensors(f"{name} diagnosis")
        )
        lost = self.report.runs.underflow.get(name, [])
        given = [*explain.advice(trace, errors, lost)]
        self.report.advice.extend(given)
        suspects = explain.suspects(trace, errors)
        if self.report.options.bisect:
            self._bisect(name, trace, suspects, ways)
        elif given:
            tries = "; --bisect tries it, and writes what passes" * bool(
                suspects
            )
            self.report.advice.append(f"none of this was tried{tries}")

    def _bisect(
        self, name: str, trace: Trace, suspects: list[str], ways: dict[str, Any]
    ) -> None:
        """Try the advice, and keep the text of what passes."""

        def trial(told: str, texts: Texts) -> list[str]:
            return self._trial(
                f"{name} with {told}", {**ways, "rewrites": dict(texts)}
            )

        search = Search(trace.places, ways["rewrites"], _source, trial)
        self.report.patched = search.run(suspects)
        self.report.advice.extend(search.said)

    def _trial(self, trial: str, ways: dict[str, Any]) -> list[str]:
        """Names of the checks that fail with these texts."""
        runs = self.report.runs
        trace = self.run(trial, **ways)
        tried = Runs(
            {**runs.traces, "trial": trace},
            dict(runs.distances),
            reference=runs.reference,
        )
        found = [*completed("trial", trace, runs["original"])]
        if trace.steps:
            if trace.left_out:
                left_out = tuple(trace.left_out)
                tried.traces["float32-as-trial"] = self.run(
                    f"as {trial}", left_out=left_out
                )
            again = functools.partial(self._settling, trial, tried, ways)
            settle("trial", trace, self.report.options.steps, again)
            tried.distances["trial"] = self.distances(trial, trace, ways)
            found += [
                *checks.amp_on(tried, "trial", self.report.options.limits)
            ]
            found += gradients(tried, "trial", self.report.options.limits)
        bad = [
            check.name.partition(": ")[2]
            for check in found
            if check.verdict == "fail"
        ]
        return bad or self._trial_off(f"{trial}, AMP off", ways["rewrites"])

    def _settling(
        self,
        trial: str,
        tried: Runs,
        ways: dict[str, Any],
        label: str,
        **changes: Any,
    ) -> Trace:
        tried.traces[label] = self.run(f"{trial}, {label}", **changes, **ways)
        return tried.traces[label]

    def _trial_off(self, trial: str, rewrites: dict[str, str]) -> list[str]:
        """With AMP off, what was added changes nothing."""
        was, off = (
            self.report.runs["amp-off"],
            self.run(trial, rewrites=rewrites, switch=False),
        )
        same = same_losses(was, off) and same_parameters(was, off)
        return [] if same or self.report.runs.unseeded else ["amp-off"]


def _source(path: str) -> str:
    return decode(Path(path).read_bytes(), path).text
