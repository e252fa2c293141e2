"""Whether the gradients of the first steps are those of the program, but for rounding.

The rule of torch's own benchmarks (torch/_dynamo/utils.py, `same`): the RMSE of the result may be m
= 3 times that of the float32 run, plus a tolerance / 10. There the result and the run it is held
against have the same precision; here they have not, and two things follow. Rounding to 11 bits
instead of 24 is 2**13 times as coarse, and what a program makes of it (batch norm over few values
magnifies it) is seen in the float32 run's own error, so 2**13 times that error is allowed too. And
sums near zero fall on the other side of a ReLU, maxima on another place of a pool, which float32's
error does not show: by 3% in small networks, by 15% in a ResNet-18 with batches of 4. Hence a
tolerance of 2 in the
place of 0.01, and a cap on both together.

Under such limits a gradient that is wrong by 5%, or in one layer, would pass. But rounding has no
direction, and an error in a program has one: a gradient that is scaled, flipped or lacks a term is
longer or shorter along the true one. So the *slope*, the length along the reference, is asked too,
of the whole gradient and of each parameter's. Rounding moves it by at most 0.003 in small networks
and 0.013 in a ResNet-18; for single parameters by 0.03, once 0.04.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from amp_migrate.runtime.check import Check, Limits, Verdict
from amp_migrate.runtime.distance import Distance, Layer
from amp_migrate.runtime.runs import Runs

_TOLERANCE = {"float16": 1.0, "bfloat16": 2.0}
"""bfloat16 rounds eight times as coarsely, but what it changes most, the side of a ReLU, does not
grow in step.
"""
MOST = 0.35
"""Relative error of a gradient that rounding may cause; the cosine to the true one is still above
0.93. A parameter for which it may be more is not looked at alone: a bias before batch norm has no
gradient but rounding.
"""
COARSER = 2.0**13
"""float16 keeps 11 bits where float32 keeps 24."""
_ROUNDED = (
    "; the program magnifies float32's own rounding as well, so float16's alone may do this: keep "
    "in float32 what magnifies it (--bisect looks), or ask with --metric whether training bears it"
)
"""Angles of large positions do that and are not to be borne; eight batch norms behind layers with
hardly any weight do it as well, and train as far. No step tells them apart.
"""


def gradients(runs: Runs, name: str, limits: Limits) -> Iterator[Check]:
    """Size of the error, and slope, of the first step of every optimizer."""
    first = [
        distance
        for distance in runs.distances.get(name, [])
        if distance.attempt == 0
    ]
    if not first:
        yield Check(
            f"{name}: gradients",
            "skip",
            None,
            None,
            "no gradients of the same step are at hand",
        )
        return
    if runs.unseeded:
        message = (
            "the program draws other random numbers in every run, so its gradients are of other "
            "data; seed it (torch.manual_seed) to have them compared"
        )
        yield Check(f"{name}: gradients", "skip", None, None, message)
        return
    noise = {
        d.optimizer: d
        for d in runs.distances.get("perturbed", [])
        if d.attempt == 0
    }
    yield _error(runs, name, first, noise, limits)
    yield _whole(runs, name, first, noise, limits)
    yield _layers(runs, name, first, noise, limits)


def _error(
    runs: Runs,
    name: str,
    first: list[Distance],
    noise: dict[int, Distance],
    limits: Limits,
) -> Check:
    dtype = runs[name].dtype
    bounds = {
        d: _error_limit(d, noise.get(d.optimizer), limits, dtype) for d in first
    }
    worst = max(first, key=lambda d: _ratio(d.error, bounds[d]))
    verdict: Verdict = "pass" if worst.error <= bounds[worst] else "fail"
    kind = "float64" if runs.reference == "float64" else "float32"
    message = f"relative RMSE to the {kind} gradients of the first step"
    if kind == "float64":
        message += f"; float32 has {worst.baseline:.2g}"
    if verdict == "fail":
        message += (
            f"; largest in {', '.join(layer.name for layer in worst.worst)}"
            f"{_ROUNDED * (worst.baseline * COARSER > MOST)}"
        )
    return Check(
        f"{name}: gradients", verdict, worst.error, bounds[worst], message
    )


def _error_limit(
    distance: Distance, noise: Distance | None, limits: Limits, dtype: str
) -> float:
    """An optimizer that steps after another one sees parameters that differ already: `noise` is
    what that does.
    """
    base = limits.gradient_factor * max(
        distance.baseline, noise.error if noise else 0.0
    )
    coarse = _TOLERANCE[dtype]
    return base + coarse * min(
        limits.gradient_tolerance / 10 + distance.baseline * COARSER, MOST
    )


def _whole(
    runs: Runs,
    name: str,
    first: list[Distance],
    noise: dict[int, Distance],
    limits: Limits,
) -> Check:
    dtype = runs[name].dtype
    found = {
        d: _slope_limit(d, noise.get(d.optimizer), limits.gradient_scale, dtype)
        for d in first
    }
    worst = max(first, key=lambda d: _ratio(d.slope - 1, found[d]))
    off = abs(worst.slope - 1)
    verdict: Verdict = "pass" if off <= found[worst] else "fail"
    message = (
        f"the whole gradient is {worst.slope:.4f} times as long as it should be"
    )
    return Check(f"{name}: gradient scale", verdict, off, found[worst], message)


def _layers(
    runs: Runs,
    name: str,
    first: list[Distance],
    noise: dict[int, Distance],
    limits: Limits,
) -> Check:
    dtype, label = runs[name].dtype, f"{name}: gradients of layers"
    known: list[tuple[float, float, Layer]] = []
    for distance in first:
        before = noise.get(distance.optimizer)
        others = (
            {layer.name: layer for layer in before.layers} if before else {}
        )
        for layer in distance.layers:
            if _TOLERANCE[dtype] * layer.baseline * COARSER <= MOST:
                limit = _slope_limit(
                    layer, others.get(layer.name), limits.layer_scale, dtype
                )
                known.append((abs(layer.slope - 1), limit, layer))
    if not known:
        return Check(
            label, "skip", None, None, "rounding alone decides these gradients"
        )
    off, limit, worst = max(known, key=lambda row: _ratio(row[0], row[1]))
    bad = [layer.name for off, limit, layer in known if not off <= limit]
    message = (
        f"that of {worst.name} is {worst.slope:.3f} times as long as it should be; "
        f"{len(known)} were looked at"
    )
    if len(bad) > 1:
        message += f"; {len(bad)} are off: {', '.join(bad[:3])}"
    return Check(label, "fail" if bad else "pass", off, limit, message)


def _ratio(value: float, limit: float) -> float:
    """What is not a number is the worst."""
    return (
        abs(value) / limit
        if limit and math.isfinite(value)
        else math.inf
        if value
        else 0.0
    )


def _slope_limit(
    one: Distance | Layer,
    noise: Distance | Layer | None,
    allowed: float,
    dtype: str,
) -> float:
    """Errors without direction still move the slope a little; most in one layer, where one value
    may be all: that of rounding by its size, shared by the root of how many values there are.
    """
    before = abs(noise.slope - 1) if noise else 0.0
    share, rounding = 0.1, 0.0
    if isinstance(one, Layer):
        share, rounding = (
            0.15,
            one.baseline * COARSER / math.sqrt(max(one.values, 1)),
        )
    return (
        _TOLERANCE[dtype] * (allowed + 3 * rounding)
        + 3 * before
        + share * min(one.error, 2.0)
    )
