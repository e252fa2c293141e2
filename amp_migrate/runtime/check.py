"""One answer of verify, and the limits that it is measured by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class Limits:
    """How much is allowed; every field is an option of `amp-migrate verify`."""

    loss_factor: float = 3.0
    """Half width of the loss band, in deviations of the program's own noise."""
    loss_floor: float = 0.05
    """The same, as a share of the loss."""
    first_loss: float = 0.02
    """Relative difference of a loss before the first step, where the parameters are still those of
    the original.
    """
    gradient_factor: float = 3.0
    gradient_tolerance: float = 2.0
    """RMSE <= factor * RMSE(float32) + tolerance / 10, relative to the float64 gradient (see
    `gradient_checks`).
    """
    gradient_scale: float = 0.02
    """How much longer or shorter the whole gradient may be than it should, besides what rounding
    does.
    """
    layer_scale: float = 0.05
    """The same for one parameter's gradient."""
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
