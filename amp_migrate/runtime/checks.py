"""What verify asks of the runs: each check has a name, a verdict, a measured value, a limit, and a
plain sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from amp_migrate.runtime.check import Check, Limits, Verdict
from amp_migrate.runtime.compare import (
    Band,
    Curve,
    band,
    curves,
    largest_difference,
    same_losses,
    same_parameters,
)
from amp_migrate.runtime.endings import drilled
from amp_migrate.runtime.settling import scale_checks
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


def reproducible(runs: Runs) -> Check:
    """Not a demand on the program, but the base of the next two checks."""
    first, again = runs["original"], runs["original-again"]
    if is_repeated(runs):
        return Check(
            "reproducible",
            "pass",
            0.0,
            None,
            "two runs of the original are equal bit for bit",
        )
    difference = largest_difference(first.losses, again.losses)
    message = (
        "the program does not reproduce itself with the same seeds; AMP off is held "
        "against this noise"
    )
    return Check("reproducible", "skip", difference, None, message)


def is_repeated(runs: Runs) -> bool:
    """Whether all runs of the original are equal bit for bit."""
    first = runs["original"]
    again = [runs[name] for name in runs.repeats]
    return all(
        same_losses(first, one) and same_parameters(first, one) for one in again
    )


def amp_off(runs: Runs) -> Iterator[Check]:
    """The rewritten program with AMP off is the original."""
    first, off = runs["original"], runs["amp-off"]
    pairs = combinations([runs[name].losses for name in runs.originals], 2)
    noise = max((largest_difference(*pair) for pair in pairs), default=0.0)
    yield _equal(
        "amp-off: losses",
        same_losses(first, off),
        largest_difference(first.losses, off.losses),
        noise,
    )
    same = same_parameters(first, off)
    yield _equal(
        "amp-off: parameters",
        same,
        runs.parameter_difference,
        runs.parameter_noise,
    )


def _equal(name: str, same: bool, difference: float, noise: float) -> Check:
    what = name.partition(": ")[2]
    if same:
        return Check(
            name,
            "pass",
            0.0,
            0.0,
            f"the {what} are those of the original, bit for bit",
        )
    if noise > 0 and difference <= 3 * noise:
        return Check(
            name,
            "pass",
            difference,
            3 * noise,
            f"the {what} differ by no more than the original from itself",
        )
    return Check(
        name,
        "fail",
        difference,
        3 * noise,
        f"with AMP off the {what} are not those of the original",
    )


def amp_on(runs: Runs, name: str, limits: Limits) -> Iterator[Check]:
    """All that is asked of a run with AMP on."""
    trace, original = runs[name], runs["original"]
    yield _engaged(name, trace)
    yield _finite(name, trace, original)
    yield loss_curve(runs, name, limits)
    if trace.dtype == "float16":
        yield from scale_checks(name, trace, runs.latest(name), limits)
    yield _first_loss(runs, name, limits)
    yield _trained(name, trace, original)
    yield _protocol(name, trace)
    yield _autocast_off(name, trace)
    if trace.drills:
        yield from drilled(name, trace, next(iter(trace.drills)))


def _engaged(name: str, trace: Trace) -> Check:
    """Operators that really ran in half, not regions that were entered."""
    label, half = f"{name}: engaged", trace.half_operators
    if half:
        modules = sum(trace.modules.values())
        told = (
            f", in {modules} of {len(trace.modules)} modules" if modules else ""
        )
        message = (
            f"{half} of {trace.operators} operators of the first losses ran "
            f"in {trace.dtype}{told}"
        )
        return Check(label, "pass", half, 1, message)
    if "cuda" not in trace.devices:
        return Check(
            label,
            "fail",
            0,
            1,
            f"AMP was never on: the model is on the CPU{_USE_CUDA}",
        )
    if not trace.regions:
        return Check(label, "fail", 0, 1, "AMP was never on in this run")
    message = (
        f"{trace.regions} autocast regions were entered, and no operator of the first losses ran "
        f"in {trace.dtype}: the model runs elsewhere, in a thread or a region of its own"
    )
    return Check(label, "fail", 0, 1, message)


_USE_CUDA = (
    "; give the program the arguments with which it uses a GPU (or --program-device cuda, where "
    "it has no device code)"
)


def _finite(name: str, trace: Trace, original: Trace) -> Check:
    bad = [i for i, x in enumerate(trace.losses) if not math.isfinite(x)]
    expected = [
        i for i, x in enumerate(original.losses) if not math.isfinite(x)
    ]
    parameters = [
        p
        for p in trace.non_finite_parameters
        if p not in original.non_finite_parameters
    ]
    if parameters:
        message = f"parameters became inf or NaN: {', '.join(parameters[:3])}"
        return Check(f"{name}: finite", "fail", len(parameters), 0, message)
    if len(bad) > len(expected):
        where = (trace.loss_places or trace.loss_sites)[bad[0]]
        message = (
            f"the loss is inf or NaN at backward {bad[0] + 1} ({where}), and {len(bad)} "
            "times in all"
        )
        return Check(
            f"{name}: finite", "fail", len(bad), len(expected), message
        )
    return Check(
        f"{name}: finite",
        "pass",
        len(bad),
        len(expected),
        "losses and parameters are finite",
    )


def base_of(runs: Runs, name: str) -> str:
    """The float32 run that the losses of `name` are held against."""
    return next(
        (one for one in (f"float32-as-{name}",) if one in runs), "original"
    )


def bands(runs: Runs, name: str, limits: Limits) -> list[Band]:
    """The band of each backward's loss; a backward that only one run makes has none."""
    original, amp = curves(runs["original"]), curves(runs[name])
    base = curves(runs[base_of(runs, name)])
    noise = [
        curves(runs[other])
        for other in (*runs.repeats, "perturbed")
        if other in runs
    ]
    return [
        band(
            original[site],
            base[site],
            [run[site] for run in noise if site in run],
            amp[site],
            limits.loss_factor,
            limits.loss_floor,
        )
        for site in original
        if site in amp and site in base
    ]


def loss_curve(runs: Runs, name: str, limits: Limits) -> Check:
    """The losses run where those of float32 do."""
    original, amp = curves(runs["original"]), curves(runs[name])
    missing = [
        site
        for site, curve in original.items()
        if not _as_often(curve, amp.get(site))
    ]
    if missing:
        return Check(
            f"{name}: loss curve",
            "fail",
            0,
            1,
            f"the backward at {missing[0]} does not run as often as before",
        )
    worst = max(
        bands(runs, name, limits), key=lambda found: found.excess, default=None
    )
    excess = worst.excess if worst else 0.0
    verdict: Verdict = "pass" if excess <= 1 else "fail"
    place = f" ({worst.site})" if worst and len(original) > 1 else ""
    inside = "stays inside" if verdict == "pass" else "leaves"
    message = (
        f"the loss {inside} the band that the program's own noise allows{place}"
    )
    return Check(f"{name}: loss curve", verdict, excess, 1.0, message)


def _first_loss(runs: Runs, name: str, limits: Limits) -> Check:
    """Before the first step both compute the same: nothing but rounding may differ."""
    found = {
        site: _first_difference(runs, name, site)
        for site in curves(runs["original"])
    }
    known = {
        site: difference
        for site, difference in found.items()
        if difference is not None
    }
    label, limit = (
        f"{name}: first loss",
        limits.first_loss * (4 if runs[name].dtype == "bfloat16" else 1),
    )
    if not known:
        return Check(
            label,
            "skip",
            None,
            None,
            "no loss comes before the first step in both runs",
        )
    site = max(known, key=lambda one: known[one])
    for again in runs.repeats:  # what is drawn anew in every run
        limit = max(limit, 3 * (_first_difference(runs, again, site) or 0.0))
    verdict: Verdict = "pass" if known[site] <= limit else "fail"
    place = f" ({site})" if len(known) > 1 else ""
    return Check(
        label,
        verdict,
        known[site],
        limit,
        f"difference of the loss before the first step, relative{place}",
    )


def _first_difference(runs: Runs, name: str, site: str) -> float | None:
    """Relative to the size of the losses, since a loss may be a difference that happens to be near
    zero.
    """
    pairs = []
    for trace in (runs["original"], runs[name]):
        rows = list(
            zip(trace.loss_sites, trace.losses, trace.loss_steps, strict=True)
        )
        pairs.append(
            [
                value
                for place, value, step in rows
                if place == site and step == 0
            ][:1]
        )
    if not all(pairs) or not all(math.isfinite(first) for (first,) in pairs):
        return None
    sizes = [
        abs(value)
        for value in curves(runs["original"])[site].values
        if math.isfinite(value)
    ]
    (before,), (after,) = pairs
    return abs(after - before) / max(
        math.fsum(sizes) / len(sizes), abs(before), 1e-300
    )


def _as_often(one: Curve, other: Curve | None) -> bool:
    return other is not None and len(other.values) >= 0.9 * len(one.values)


def _trained(name: str, trace: Trace, original: Trace) -> Check:
    lost = sorted(set(trace.without_gradient) - set(original.without_gradient))
    if lost and trace.skipped_steps < len(trace.taken):
        message = f"parameters that the original trains get no gradient: {', '.join(lost[:3])}"
        return Check(
            f"{name}: all parameters train", "fail", len(lost), 0, message
        )
    return Check(
        f"{name}: all parameters train",
        "pass",
        0,
        0,
        "the same parameters get gradients as in the original",
    )


def _protocol(name: str, trace: Trace) -> Check:
    found = trace.violations
    if not found:
        return Check(
            f"{name}: protocol",
            "pass",
            0,
            0,
            "every step follows AMP's protocol",
        )
    first = found[0]
    message = f"{first.rule}: {first.message} ({first.file}:{first.line}, {first.count} times)"
    if len(found) > 1:
        message += f"; and {len(found) - 1} more"
    return Check(f"{name}: protocol", "fail", len(found), 0, message)


def _autocast_off(name: str, trace: Trace) -> Check:
    inside = trace.steps_inside
    message = (
        f"autocast is still on at {inside} steps"
        if inside
        else "autocast is off whenever an optimizer steps"
    )
    return Check(
        f"{name}: autocast off",
        "fail" if inside else "pass",
        inside,
        0,
        message,
    )
