"""Numbers out of traces: how far two runs are apart, and how far they may be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from amp_migrate.runtime.trace import Trace


@dataclass(frozen=True)
class Curve:
    """The losses of one backward in the program, in order, with the number of skipped steps before each."""

    site: str
    values: tuple[float, ...]
    skipped: tuple[int, ...]


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
        """The largest distance from the middle of the band, in half widths: inside up to 1, inf where not finite."""
        ratios = [
            abs(value - (low + high) / 2) / ((high - low) / 2) if math.isfinite(value) else math.inf
            for value, low, high in zip(self.curve, self.low, self.high, strict=True)
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
    """The largest difference of two series relative to their size; inf where only one is finite, or longer."""
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
    skips = _skips_before(trace)
    found: dict[str, list[tuple[float, int]]] = {}
    for site, value, step in zip(trace.loss_sites, trace.losses, trace.loss_steps, strict=True):
        found.setdefault(site, []).append((value, skips[min(step, len(skips) - 1)]))
    return {site: Curve(site, tuple(v for v, _ in rows), tuple(s for _, s in rows)) for site, rows in found.items()}


def _skips_before(trace: Trace) -> list[int]:
    """By the number of steps done: how many any one optimizer has skipped so far."""
    attempts: Counter[int] = Counter()
    skips: Counter[int] = Counter({0: 0})
    counts = [0]
    for optimizer, taken in zip(trace.optimizers, trace.taken, strict=True):
        attempts[optimizer] += 1
        skips[optimizer] += not taken
        counts += [0] * (max(attempts.values()) + 1 - len(counts))
        counts[-1] = max(skips.values())
    return counts


def band(original: Curve, noise: Sequence[Curve], amp: Curve, factor: float, floor: float) -> Band:
    """The band around `original` for `amp`, over as many losses as both have.

    Its half width is `factor` times the largest deviation so far of the `noise` runs, plus `floor` times the size of
    the loss. Skipped steps are no fault of training, only a delay: where `amp` has skipped k steps, the original's
    last k losses count too, and where there are no k losses yet, nothing can be said.
    """
    count = min(len(original.values), len(amp.values))
    window = max(count // 10, 3)
    middle, curve = _smooth(original.values[:count], window), _smooth(amp.values[:count], window)
    others = [_smooth(run.values[:count], window) for run in noise]
    scatter = _scatter(original.values[:count], middle) / math.sqrt(window)
    low, high, worst = [], [], 0.0
    for i, value in enumerate(middle):
        worst = max([worst, *(abs(run[i] - value) for run in others if i < len(run) and math.isfinite(run[i]))])
        lag = amp.skipped[i]
        if lag > i:  # so late that the original has no loss of that time
            low.append(-math.inf)
            high.append(math.inf)
            continue
        reach = [x for x in middle[max(i - lag, 0) : i + 1] if math.isfinite(x)] or [value]
        width = factor * (worst + (scatter if lag else 0.0)) + floor * max(abs(x) for x in reach) + 1e-12
        low.append(min(reach) - width)
        high.append(max(reach) + width)
    return Band(amp.site, tuple(low), tuple(high), tuple(curve))


def _smooth(values: Sequence[float], window: int) -> list[float]:
    """Mean of the last `window` values."""
    result = []
    for i in range(len(values)):
        part = values[max(i - window + 1, 0) : i + 1]
        result.append(math.fsum(part) / len(part) if all(map(math.isfinite, part)) else math.nan)
    return result


def _scatter(values: Sequence[float], middle: Sequence[float]) -> float:
    """Standard deviation from batch to batch, for losses compared over different batches."""
    squares = [(x - m) ** 2 for x, m in zip(values, middle, strict=True) if math.isfinite(x) and math.isfinite(m)]
    return math.sqrt(math.fsum(squares) / len(squares)) if squares else 0.0


def median(values: Sequence[float]) -> float:
    """The middle value; NaN of nothing."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan


def spread(values: Sequence[float]) -> float:
    """Standard error of the median relative to it, from the median absolute deviation."""
    middle = median(values)
    deviation = 1.4826 * median([abs(value - middle) for value in values])
    return 1.2533 * deviation / math.sqrt(len(values)) / middle if values and middle > 0 else math.inf
