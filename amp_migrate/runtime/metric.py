"""A number that the program tells, with and without AMP, over seeds: a test of equivalence.

Not whether a difference can be shown (with few seeds none can), but whether the two are shown to be
as near as the margin: the 90% confidence interval of the mean difference of runs with the same seed
lies inside of it (two one-sided tests at 5%).
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence

from amp_migrate.runtime.check import Check

SHARE = 0.01
SPREADS = 2.0
"""The margin: this share of the number, or so many standard deviations of it over seeds without
AMP, whichever is larger."""
_FEW = 5
_QUANTILES = (
    6.314,
    2.920,
    2.353,
    2.132,
    2.015,
    1.943,
    1.895,
    1.860,
    1.833,
    1.812,
)
"""Of Student's distribution at 95%, by degrees of freedom from 1 on."""
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)\b)"


def printed(text: str, name: str) -> list[float]:
    """All values of `name` in what a program printed: `name: 0.9`, `name=0.9`, `name 90%`."""
    pattern = rf"(?<!\w){re.escape(name)}(?!\w)[\s\"'\]):=|]*{_NUMBER}"
    return [float(found) for found in re.findall(pattern, text, re.IGNORECASE)]


def names(text: str) -> list[str]:
    """What stands before the numbers that a program printed, each once, as far as it is words."""
    found = re.findall(rf"([A-Za-z][\w/ .@-]*?)[\s\"'\]):=|]+{_NUMBER}", text)
    return list(dict.fromkeys(words.strip() for words, _ in found))


def value(found: Sequence[float], epochs: int | None) -> float | None:
    """The last one, or that of the epoch `epochs`; None where it was not told (so often)."""
    if epochs is None:
        return found[-1] if found else None
    return found[epochs - 1] if len(found) >= epochs else None


def equivalent(
    label: str,
    before: Sequence[float],
    after: Sequence[float],
    margin: float | None,
) -> Check:
    """Of the values without and with AMP, seed by seed; `margin` is a share of the mean."""
    if not all(map(math.isfinite, before)):
        return Check(
            label, "skip", None, None, "it is not finite without AMP either"
        )
    if not all(map(math.isfinite, after)):
        return Check(label, "fail", None, None, "it is not finite with AMP")
    allowed = _margin(before, margin)
    differences = [new - old for old, new in zip(before, after, strict=True)]
    middle = statistics.fmean(differences)
    half = _half(differences)
    told = (
        f"{_told(after)} with AMP, {_told(before)} without, over "
        f"{len(before)} seeds: the difference is {middle:+.2g} ± {half:.2g}"
    )
    if abs(middle) + half <= allowed:
        return Check(
            label, "pass", abs(middle), allowed, f"{told}, inside the margin"
        )
    if abs(middle) - half > allowed:
        return Check(
            label, "fail", abs(middle), allowed, f"{told}, outside the margin"
        )
    more = "not shown to be inside the margin; raise --metric-seeds"
    return Check(label, "skip", abs(middle), allowed, f"{told}: {more}")


def _told(values: Sequence[float]) -> str:
    """The mean; and each value, where they are few."""
    each = f" ({', '.join(f'{one:.4g}' for one in values)})"
    return f"{statistics.fmean(values):.5g}{each * (len(values) <= _FEW)}"


def _margin(before: Sequence[float], given: float | None) -> float:
    size = abs(statistics.fmean(before))
    if given is not None:
        return given * size
    return max(SHARE * size, SPREADS * statistics.stdev(before))


def _half(differences: Sequence[float]) -> float:
    freedom = len(differences) - 1
    quantile = _QUANTILES[freedom - 1] if freedom <= len(_QUANTILES) else 1.8
    return (
        quantile * statistics.stdev(differences) / math.sqrt(len(differences))
    )
