"""Numbers out of traces: how far two runs are apart, and how far they may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from amp_migrate.runtime.trace import Trace


@dataclass(frozen=True)
class Curve:
    """The losses of one backward in the program, in order."""

    site: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Band:
    """Where the loss of a rewritten program may run, one place per loss of one backward."""

    site: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    curve: tuple[float, ...]
    """The rewritten program's own, smoothed as the band is."""

    @property
    def excess(self) -> float:
        """The largest distance from the middle of the band, in half widths: inside up to 1, inf
        where not finite.
        """
        ratios = [
            abs(value - (low + high) / 2) / ((high - low) / 2)
            if math.isfinite(value)
            else math.inf
            for value, low, high in zip(
                self.curve, self.low, self.high, strict=True
            )
            if math.isfinite(low) and math.isfinite(high)
        ]
        return max(ratios, default=0.0)


def same_losses(one: Trace, other: Trace) -> bool:
    """Bit for bit, and as many."""
    return [x.hex() for x in one.losses] == [x.hex() for x in other.losses]


def same_parameters(one: Trace, other: Trace) -> bool:
    """Bit for bit."""
    return one.parameter_digests == other.parameter_digests


def largest_difference(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest difference of two series relative to their size; inf where only one is finite,
    or longer.
    """
    if len(one) != len(other):
        return math.inf
    size = max((abs(x) for x in one if math.isfinite(x)), default=0.0)
    worst = 0.0
    for x, y in zip(one, other, strict=True):
        if math.isfinite(x) != math.isfinite(y):
            return math.inf
        if math.isfinite(x) and x != y:
            worst = max(worst, abs(x - y) / max(size, 1e-300))
    return worst


def curves(trace: Trace) -> dict[str, Curve]:
    """One curve per backward in the program."""
    found: dict[str, list[float]] = {}
    for site, value in zip(trace.loss_sites, trace.losses, strict=True):
        found.setdefault(site, []).append(value)
    return {site: Curve(site, tuple(values)) for site, values in found.items()}


def band(
    original: Curve,
    base: Curve,
    noise: Sequence[Curve],
    amp: Curve,
    factor: float,
    floor: float,
) -> Band:
    """The band around `base` for `amp`, over as many losses as both have.

    Its half width is `factor` times the largest deviation so far of the `noise` runs from
    `original`, plus `floor` times the size of the loss. `base` is the float32 run that leaves out
    the steps that the scaler of `amp` skipped: a skipped step is no fault of training, only a
    delay, and what it does to the curve is measured.
    """
    count = min(len(original.values), len(base.values), len(amp.values))
    window = max(count // 10, 3)
    middle, curve = (
        _smooth(base.values[:count], window),
        _smooth(amp.values[:count], window),
    )
    undisturbed = _smooth(original.values[:count], window)
    others = [_smooth(run.values[:count], window) for run in noise]
    low, high, worst = [], [], 0.0
    for i, value in enumerate(middle):
        off = [abs(run[i] - undisturbed[i]) for run in others if i < len(run)]
        worst = max([worst, *filter(math.isfinite, off)])
        width = factor * worst + floor * abs(value) + 1e-12
        low.append(value - width)
        high.append(value + width)
    return Band(amp.site, tuple(low), tuple(high), tuple(curve))


def _smooth(values: Sequence[float], window: int) -> list[float]:
    """Mean of the last `window` values."""
    result = []
    for i in range(len(values)):
        part = values[max(i - window + 1, 0) : i + 1]
        result.append(
            math.fsum(part) / len(part)
            if all(map(math.isfinite, part))
            else math.nan
        )
    return result


def median(values: Sequence[float]) -> float:
    """The middle value; NaN of nothing."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan


def spread(values: Sequence[float]) -> float:
    """Standard error of the median relative to it, from the median absolute deviation."""
    middle = median(values)
    deviation = 1.4826 * median([abs(value - middle) for value in values])
    return (
        1.2533 * deviation / math.sqrt(len(values)) / middle
        if values and middle > 0
        else math.inf
    )
