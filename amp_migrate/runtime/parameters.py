"""How far the parameters of the run with AMP off are from those of the original."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

from amp_migrate.runtime.compare import same_parameters
from amp_migrate.runtime.endings import same_shapes
from amp_migrate.runtime.runs import Runs


def note_differences(runs: Runs, tensors: Callable[[str], Path]) -> None:
    """Into `runs`, with what the original's own runs are apart; `tensors` has those of a run."""
    if (
        same_parameters(runs["original"], runs["amp-off"])
        or not runs["amp-off"].steps
    ):
        return
    if not same_shapes(runs["original"], runs["amp-off"]):
        runs.parameter_difference = math.inf
        return
    from amp_migrate.runtime.gradients import largest_parameter_difference

    originals = [tensors(name) for name in runs.originals]
    runs.parameter_noise = max(
        (
            largest_parameter_difference(*pair)
            for pair in combinations(originals, 2)
        ),
        default=0.0,
    )
    runs.parameter_difference = largest_parameter_difference(
        originals[0], tensors("amp-off")
    )
