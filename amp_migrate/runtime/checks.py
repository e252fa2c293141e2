"""What verify asks of the runs: each check has a name, a verdict, a measured value, a limit, and a
plain sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

from amp_migrate.runtime.check import Check, Limits
from amp_migrate.runtime.compare import (
    largest_difference,
    same_losses,
    same_parameters,
)
from amp_migrate.runtime.endings import drilled
from amp_migrate.runtime.loss_checks import first_loss, loss_curve
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.settling import scale_checks
from amp_migrate.runtime.trace import Trace


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
    yield first_loss(runs, name, limits)
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
        f"{trace.regions} autocast regions were entered, and no operator of the losses looked at "
        f"ran in {trace.dtype}: the model runs elsewhere, in a thread or a region of its own"
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
