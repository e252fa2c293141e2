"""How far the gradients of two runs are apart, as numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """One parameter's gradient against the reference; `baseline` is the float32 run's own error,
    both relative.
    """

    name: str
    error: float
    baseline: float
    slope: float
    """The factor by which the gradient is longer than the reference along the reference: 1 but for
    rounding, which has no direction; -1 with the wrong sign; 0 where it is lost."""
    values: int = 1
    """How many it has: the fewer they are, the less do the errors of rounding cancel."""


@dataclass(frozen=True)
class Distance:
    """How far the gradients of one step are from the reference."""

    optimizer: int
    attempt: int
    error: float
    baseline: float
    """The float32 run's own error."""
    slope: float
    layers: tuple[Layer, ...] = ()

    @property
    def worst(self) -> tuple[Layer, ...]:
        """The layers that are farthest off, relative to the size of the whole gradient."""
        return tuple(sorted(self.layers, key=lambda layer: -layer.error)[:3])
