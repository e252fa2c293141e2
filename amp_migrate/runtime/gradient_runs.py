"""The runs that tell how exact the gradients with AMP are: a reference in float64, or float32 runs
with disturbed parameters, and a scale at which no first step is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from amp_migrate.runtime.endings import how, same_shapes
from amp_migrate.runtime.gradient_checks import COARSER, gradients
from amp_migrate.runtime.report import Report
from amp_migrate.runtime.runner import REFERENCE_STEPS
from amp_migrate.runtime.trace import Trace

_HALF_ROUNDING = 2.0**-11


class GradientRuns:
    """Makes them as they are needed, each once."""

    def __init__(
        self,
        report: Report,
        run: Callable[..., Trace],
        tensors: Callable[[str], Path],
    ) -> None:
        self.report = report
        self._run = run
        self._tensors = tensors
        self._single = "original"

    def compare(self, name: str, ways: dict[str, Any]) -> None:
        """Add the checks of the gradients of the run `name`."""
        from amp_migrate.runtime.gradients import distances

        runs = self.report.runs
        if not same_shapes(runs["original"], runs[name]):
            return  # said by its own check; there is no gradient to hold against another
        if "perturbed" not in runs.distances:
            runs.distances["perturbed"] = distances(
                self._tensors("original"), self._tensors("perturbed"), None
            )
        self._reference(name, ways)
        self.report.checks.extend(
            gradients(runs, name, self.report.options.limits)
        )

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
        if self.report.options.device == "cuda":
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

    def error(self, name: str, trace: Trace, ways: dict[str, Any]) -> list[Any]:
        """How far the first gradients of a run are from the reference."""
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
                perturb=_HALF_ROUNDING,
                perturb_first=True,
                steps=1,
            )
        rounded, single = (
            self._tensors("float32 rounded"),
            self._tensors(self._single),
        )
        found = distances(rounded, self._tensors(source), single)
        return [rounded_as(one, 1 / COARSER) for one in found]
