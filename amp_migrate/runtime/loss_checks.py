"""Whether the losses of a run with AMP are those of float32, but for rounding and noise."""

from __future__ import annotations

import math

from amp_migrate.runtime.check import Check, Limits, Verdict
from amp_migrate.runtime.compare import (
    Band,
    Curve,
    band,
    curves,
)
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.trace import Trace


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
            limits.loss_factor * _coarseness(runs[name]),
            limits.loss_floor,
        )
        for site in original
        if site in amp and site in base
    ]


def _coarseness(trace: Trace) -> int:
    """How much more a run's precision rounds than the limits are for, which are float16's: bfloat16
    has three bits less, two of them count.
    """
    return 4 if trace.dtype == "bfloat16" else 1


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


def first_loss(runs: Runs, name: str, limits: Limits) -> Check:
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
        limits.first_loss * _coarseness(runs[name]),
    )
    if not known:
        return Check(label, "skip", None, None, _why_unknown(runs, name))
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


def _why_unknown(runs: Runs, name: str) -> str:
    for run in ("original", name):
        trace = runs[run]
        first = [
            value
            for value, step in zip(trace.losses, trace.loss_steps, strict=True)
            if step == 0
        ]
        if first and not any(map(math.isfinite, first)):
            return (
                f"the loss before the first step is inf or NaN in the run {run}"
            )
    return "no loss comes before the first step in both runs"


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
