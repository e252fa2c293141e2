"""Whether the loss scale has settled: from 65536 it halves at each step that overflows, and a short
run may end on the way down. What is still falling is given time: the program is run again from the
scale that it had come to, until it stays, or falls below 1.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator

from amp_migrate.runtime.check import Check, Limits, Verdict
from amp_migrate.runtime.trace import Trace

_TOO_LARGE = (
    "; below 1, the gradients as they are do not fit into float16: have the loss and its targets "
    "smaller, or take --dtype bfloat16"
)
_INFINITE = "; the loss itself is inf or NaN, so no scale helps"
MOST = 17
"""Runs: as many halvings lead from 65536 to below 1."""


def scale_checks(
    name: str, trace: Trace, latest: Trace, limits: Limits
) -> Iterator[Check]:
    """`latest` is the run that was given time, or `trace` itself."""
    worst = max(map(_skipped, _attempts(trace)), default=(0, 0))
    allowed = limits.skipped + worst[1] // 20
    message = f"{trace.skipped_steps} of {len(trace.taken)} steps were skipped"
    verdict: Verdict = "pass" if worst[0] <= allowed else "fail"
    yield Check(f"{name}: skipped steps", verdict, worst[0], allowed, message)
    late, last = max(
        map(_skipped, map(_last_third, _attempts(latest))), default=(0, 0)
    )
    scale, bound = _scale(latest), _bound(last)
    lost, since = max(map(_lost_to_growth, _attempts(trace)), default=(0, 0))
    stays = late <= bound and scale >= 1 and lost <= 1 + since // 10
    verdict = "pass" if stays and latest.taken else "fail"
    message = (
        f"the scale is {scale:g}; {late} of the last {last} steps were skipped"
    )
    if lost > 1 + since // 10:
        message += f", and {lost} of {since} since it grew: growth_interval is too short"
    if latest is not trace:
        message += (
            f" (in a run that began with {latest.scales[0] if latest.scales else 1:g}: after "
            f"{trace.steps} steps it was still falling)"
        )
    if scale < 1:
        infinite = not all(map(math.isfinite, latest.losses))
        message += _INFINITE if infinite else _TOO_LARGE
    yield Check(f"{name}: scale settled", verdict, late, bound, message)


def settle(
    name: str, trace: Trace, steps: int, again: Callable[..., Trace]
) -> None:
    """Have `again` make runs named after `name` for a scale that is still falling after `steps` in
    `trace`.
    """
    for _ in range(MOST):
        scale = _next_scale(trace)
        if not is_falling(trace) or scale < 1:
            break
        enough = max(steps, int(math.log2(scale)) + 4)
        trace = again(f"{name}-from-{scale:g}", init_scale=scale, steps=enough)


def is_falling(trace: Trace) -> bool:
    """Whether the run ended while a scale that has never grown was on its way down."""
    return _scale(trace) >= 1 and any(
        late > _bound(last)
        and attempts[-1][1] <= min(scale for _, scale in attempts)
        for attempts in _attempts(trace)
        for late, last in [_skipped(_last_third(attempts))]
    )


def _bound(last: int) -> int:
    """An overflow may come at any time; where each of the last steps was skipped, none was seen to
    fit.
    """
    return max(min(1 + last // 20, last - 1), 0)


def _scale(trace: Trace) -> float:
    """The smallest that is in use at the end."""
    return min((attempts[-1][1] for attempts in _attempts(trace)), default=1.0)


def _next_scale(trace: Trace) -> float:
    """The smallest that would be in use next: a skipped step halves it."""
    ends = [attempts[-1] for attempts in _attempts(trace)]
    return min(
        (scale if taken else scale / 2 for taken, scale in ends), default=1.0
    )


def _skipped(attempts: list[tuple[bool, float]]) -> tuple[int, int]:
    return sum(not taken for taken, _ in attempts), len(attempts)


def _lost_to_growth(attempts: list[tuple[bool, float]]) -> tuple[int, int]:
    """Skipped steps, and all, since the scale first grew: an overflow for each growth costs nothing
    where it grows every 2000 steps.
    """
    pairs = enumerate(itertools.pairwise(attempts), 1)
    grown = [i for i, ((_, old), (_, new)) in pairs if new > old]
    return _skipped(attempts[grown[0] :]) if grown else (0, 0)


def _last_third(attempts: list[tuple[bool, float]]) -> list[tuple[bool, float]]:
    return attempts[-max(len(attempts) // 3, 1) :]


def _attempts(trace: Trace) -> list[list[tuple[bool, float]]]:
    """Of each optimizer, since one overflow may make several skip: whether each attempt was taken,
    and the scale. A step that raised has a scale alone.
    """
    found: defaultdict[int, list[tuple[bool, float]]] = defaultdict(list)
    for optimizer, taken, scale in zip(
        trace.optimizers,
        trace.taken,
        trace.scales or [1.0] * len(trace.taken),
        strict=False,
    ):
        found[optimizer].append((taken, scale))
    return list(found.values())
