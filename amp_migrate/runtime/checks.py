"""What verify asks of the runs: each check has a name, a verdict, a measured value, a limit, and a plain sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from amp_migrate.runtime.compare import Band, Curve, band, curves, largest_difference, same_losses, same_parameters
from amp_migrate.runtime.trace import Trace

_RESUMED = "; if it goes on from a checkpoint that the run before has written, use --scratch"
Verdict = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class Limits:
    """How much is allowed; every field is an option of `amp-migrate verify`."""

    loss_factor: float = 3.0
    """Half width of the loss band, in deviations of the program's own noise."""
    loss_floor: float = 0.05
    """The same, as a share of the loss."""
    first_loss: float = 0.02
    """Relative difference of a loss before the first step, where the parameters are still those of the original."""
    gradient_factor: float = 3.0
    gradient_tolerance: float = 2.0
    """RMSE <= factor * RMSE(float32) + tolerance / 10, relative to the float64 gradient (see `gradient_checks`)."""
    gradient_scale: float = 0.02
    """How much longer or shorter the whole gradient may be than it should, besides what rounding does."""
    layer_scale: float = 0.05
    """The same for one parameter's gradient."""
    cosine: float = 0.99
    skipped: int = 16
    """Steps that may be skipped: from 65536 down to 1 it takes 16 halvings."""
    min_speedup: float | None = None
    """Fail below this ratio to float32; None only tells."""


@dataclass(frozen=True)
class Check:
    """One answer. `measured` and `limit` are numbers, or text where there is no number."""

    name: str
    verdict: Verdict
    measured: Any
    limit: Any
    message: str


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
    """Largest relative difference of final parameters: original again, and amp-off, against the original."""

    def __getitem__(self, name: str) -> Trace:
        return self.traces[name]

    def __contains__(self, name: str) -> bool:
        return name in self.traces

    def amp(self) -> list[str]:
        """Names of the runs with AMP on."""
        return [name for name in self.traces if name in ("amp", "amp-bfloat16")]


def completed(name: str, trace: Trace, original: Trace | None) -> Check:
    """The run came to its end or to the wanted number of steps, and trained."""
    label = f"{name}: run"
    if trace.status not in ("stopped", "finished"):
        return Check(label, "fail", trace.status, "stopped or finished", f"the {name} run {_how(trace)}")
    if not trace.steps:
        return Check(label, "fail", 0, 1, f"the {name} run took no optimizer step; {_no_step(trace, original)}")
    if original is not None and trace.steps != original.steps:
        message = f"the {name} run made {trace.steps} steps, the original {original.steps}{_RESUMED}"
        return Check(label, "fail", trace.steps, original.steps, message)
    return Check(label, "pass", trace.steps, None, f"{trace.steps} steps, {len(trace.losses)} backward calls")


def _no_step(trace: Trace, original: Trace | None) -> str:
    if trace.processes:
        return (
            f"it started {trace.processes} processes itself, and only the first process of a program is measured: "
            "have a launcher start them (--nproc runs the program under torchrun), or verify what one of them does"
        )
    return "nothing can be compared" + (_RESUMED if original is not None else "")


def _how(trace: Trace) -> str:
    told = trace.error.strip().splitlines() or ["no output"]
    if trace.status == "raised":
        return f"raised an error: {told[-1]}"
    return f"did not come to an end: {told[0]}" + (f"; its last line: {told[-1]}" if len(told) > 1 else "")


def reproducible(runs: Runs) -> Check:
    """Not a demand on the program, but the base of the next two checks."""
    first, again = runs["original"], runs["original-again"]
    if same_losses(first, again) and same_parameters(first, again):
        return Check("reproducible", "pass", 0.0, None, "two runs of the original are equal bit for bit")
    difference = largest_difference(first.losses, again.losses)
    message = "the program does not reproduce itself with the same seeds; AMP off is held against this noise"
    return Check("reproducible", "skip", difference, None, message)


def amp_off(runs: Runs) -> Iterator[Check]:
    """The rewritten program with AMP off is the original."""
    first, off = runs["original"], runs["amp-off"]
    noise = largest_difference(first.losses, runs["original-again"].losses)
    yield _equal("amp-off: losses", same_losses(first, off), largest_difference(first.losses, off.losses), noise)
    same = same_parameters(first, off)
    yield _equal("amp-off: parameters", same, runs.parameter_difference, runs.parameter_noise)


def _equal(name: str, same: bool, difference: float, noise: float) -> Check:
    what = name.partition(": ")[2]
    if same:
        return Check(name, "pass", 0.0, 0.0, f"the {what} are those of the original, bit for bit")
    if noise > 0 and difference <= 3 * noise:
        return Check(name, "pass", difference, 3 * noise, f"the {what} differ by no more than the original from itself")
    return Check(name, "fail", difference, 3 * noise, f"with AMP off the {what} are not those of the original")


def amp_on(runs: Runs, name: str, limits: Limits) -> Iterator[Check]:
    """All that is asked of a run with AMP on."""
    trace, original = runs[name], runs["original"]
    yield _engaged(name, trace)
    yield _finite(name, trace, original)
    yield _loss_curve(runs, name, limits)
    if trace.dtype == "float16":
        yield from _scale(name, trace, limits)
    yield _first_loss(runs, name, limits)
    yield _trained(name, trace, original)
    yield _protocol(name, trace)
    yield _autocast_off(name, trace)
    yield from drills(name, trace.drills)


def _engaged(name: str, trace: Trace) -> Check:
    verdict: Verdict = "pass" if trace.regions else "fail"
    message = f"{trace.regions} autocast regions were entered" if trace.regions else "AMP was never on in this run"
    return Check(f"{name}: engaged", verdict, trace.regions, 1, message)


def _finite(name: str, trace: Trace, original: Trace) -> Check:
    bad = [i for i, x in enumerate(trace.losses) if not math.isfinite(x)]
    expected = [i for i, x in enumerate(original.losses) if not math.isfinite(x)]
    parameters = [p for p in trace.non_finite_parameters if p not in original.non_finite_parameters]
    if parameters:
        message = f"parameters became inf or NaN: {', '.join(parameters[:3])}"
        return Check(f"{name}: finite", "fail", len(parameters), 0, message)
    if len(bad) > len(expected):
        where = trace.loss_sites[bad[0]]
        message = f"the loss is inf or NaN at backward {bad[0] + 1} ({where}), and {len(bad)} times in all"
        return Check(f"{name}: finite", "fail", len(bad), len(expected), message)
    return Check(f"{name}: finite", "pass", len(bad), len(expected), "losses and parameters are finite")


def bands(runs: Runs, name: str, limits: Limits) -> list[Band]:
    """The band of each backward's loss; a backward that only one run makes has none."""
    original, amp = curves(runs["original"]), curves(runs[name])
    noise = [curves(runs[other]) for other in ("original-again", "perturbed") if other in runs]
    return [
        band(
            original[site],
            [run[site] for run in noise if site in run],
            amp[site],
            limits.loss_factor,
            limits.loss_floor,
        )
        for site in original
        if site in amp
    ]


def _loss_curve(runs: Runs, name: str, limits: Limits) -> Check:
    original, amp = curves(runs["original"]), curves(runs[name])
    missing = [site for site, curve in original.items() if not _as_often(curve, amp.get(site))]
    if missing:
        return Check(
            f"{name}: loss curve", "fail", 0, 1, f"the backward at {missing[0]} does not run as often as before"
        )
    worst = max(bands(runs, name, limits), key=lambda found: found.excess, default=None)
    excess = worst.excess if worst else 0.0
    verdict: Verdict = "pass" if excess <= 1 else "fail"
    place = f" ({worst.site})" if worst and len(original) > 1 else ""
    inside = "stays inside" if verdict == "pass" else "leaves"
    message = f"the loss {inside} the band that the program's own noise allows{place}"
    return Check(f"{name}: loss curve", verdict, excess, 1.0, message)


def _first_loss(runs: Runs, name: str, limits: Limits) -> Check:
    """Before the first step both compute the same: nothing but rounding may differ."""
    found = {site: _first_difference(runs, name, site) for site in curves(runs["original"])}
    known = {site: difference for site, difference in found.items() if difference is not None}
    label, limit = f"{name}: first loss", limits.first_loss * (4 if runs[name].dtype == "bfloat16" else 1)
    if not known:
        return Check(label, "skip", None, None, "no loss comes before the first step in both runs")
    site = max(known, key=lambda one: known[one])
    verdict: Verdict = "pass" if known[site] <= limit else "fail"
    place = f" ({site})" if len(known) > 1 else ""
    return Check(label, verdict, known[site], limit, f"difference of the loss before the first step, relative{place}")


def _first_difference(runs: Runs, name: str, site: str) -> float | None:
    """Relative to the size of the losses, since a loss may be a difference that happens to be near zero."""
    pairs = []
    for trace in (runs["original"], runs[name]):
        rows = list(zip(trace.loss_sites, trace.losses, trace.loss_steps, strict=True))
        pairs.append([value for place, value, step in rows if place == site and step == 0][:1])
    if not all(pairs) or not all(math.isfinite(first) for (first,) in pairs):
        return None
    sizes = [abs(value) for value in curves(runs["original"])[site].values if math.isfinite(value)]
    (before,), (after,) = pairs
    return abs(after - before) / max(math.fsum(sizes) / len(sizes), abs(before), 1e-300)


def _as_often(one: Curve, other: Curve | None) -> bool:
    return other is not None and len(other.values) >= 0.9 * len(one.values)


def _scale(name: str, trace: Trace, limits: Limits) -> Iterator[Check]:
    allowed = limits.skipped + len(trace.taken) // 20
    verdict: Verdict = "pass" if trace.skipped_steps <= allowed else "fail"
    message = f"{trace.skipped_steps} of {len(trace.taken)} steps were skipped"
    yield Check(f"{name}: skipped steps", verdict, trace.skipped_steps, allowed, message)
    last = trace.taken[-max(len(trace.taken) // 3, 1) :]
    late, bound = last.count(False), 1 + len(last) // 20
    final = trace.scales[-1] if trace.scales else 1.0
    settled = late <= bound and final >= 1
    message = f"the scale is {final:g}; {late} of the last {len(last)} steps were skipped"
    yield Check(f"{name}: scale settled", "pass" if settled else "fail", late, bound, message)


def _trained(name: str, trace: Trace, original: Trace) -> Check:
    lost = sorted(set(trace.without_gradient) - set(original.without_gradient))
    if lost and trace.skipped_steps < len(trace.taken):
        message = f"parameters that the original trains get no gradient: {', '.join(lost[:3])}"
        return Check(f"{name}: all parameters train", "fail", len(lost), 0, message)
    return Check(f"{name}: all parameters train", "pass", 0, 0, "the same parameters get gradients as in the original")


def _protocol(name: str, trace: Trace) -> Check:
    found = trace.violations
    if not found:
        return Check(f"{name}: protocol", "pass", 0, 0, "every step follows AMP's protocol")
    first = found[0]
    message = f"{first.rule}: {first.message} ({first.file}:{first.line}, {first.count} times)"
    if len(found) > 1:
        message += f"; and {len(found) - 1} more"
    return Check(f"{name}: protocol", "fail", len(found), 0, message)


def _autocast_off(name: str, trace: Trace) -> Check:
    inside = trace.steps_inside
    message = f"autocast is still on at {inside} steps" if inside else "autocast is off whenever an optimizer steps"
    return Check(f"{name}: autocast off", "fail" if inside else "pass", inside, 0, message)


def drills(name: str, results: Mapping[str, Any]) -> Iterator[Check]:
    """Answers of the drills that ran (see `drills`)."""
    for drill, result in results.items():
        yield Check(f"{name}: {drill}", result["verdict"], result["measured"], result["limit"], result["message"])
