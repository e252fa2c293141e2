"""Gradients of the first steps against the float64 reference, by the rule of torch's own benchmarks.

torch/_dynamo/utils.py, `same`: the RMSE of the result may be `multiplier` times that of the float32 run, plus a
tolerance / 10. Here both are relative to the size of the reference, since a gradient has no natural scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Distance:
    """How far the gradients of one step are from the reference; `cosine` is that to the float32 run."""

    optimizer: int
    attempt: int
    error: float
    baseline: float
    """The float32 run's own error."""
    cosine: float
    worst: tuple[tuple[str, float], ...]
    """Parameters with the largest error, relative to the size of the whole gradient."""


def load(folder: Path) -> dict[str, Any]:
    """What the probe saved in `folder`."""
    found: dict[str, Any] = torch.load(folder / "tensors.pt", weights_only=True)
    return found


def distances(original: Path, amp: Path, reference: Path | None) -> list[Distance]:
    """One distance for each step whose gradients both runs kept; without a reference the float32 run is it."""
    floats, halves = _steps(original), _steps(amp)
    doubles = _steps(reference) if reference is not None else floats
    return [
        _distance(key, floats[key], halves[key]["gradients"], doubles[key]["gradients"])
        for key in floats
        if key in halves and key in doubles
    ]


def _steps(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    return {(row["optimizer"], row["attempt"]): row for row in load(folder)["gradients"]}


def _distance(key: tuple[int, int], original: dict[str, Any], halves: list[Any], truth: list[Any]) -> Distance:
    floats = original["gradients"]
    rows = list(zip(original["names"], floats, halves, truth, strict=True))
    rows = [row for row in rows if all(gradient is not None for gradient in row[1:])]
    if not rows:
        return Distance(*key, 0.0, 0.0, 1.0, ())
    whole = [torch.cat([row[kind].flatten() for row in rows]) for kind in (1, 2, 3)]
    size = whole[2].square().mean().sqrt().item()
    single = sorted(
        ((name, _rmse(half, true) / (size or 1.0)) for name, _, half, true in rows), key=lambda row: -row[1]
    )
    cosine = torch.nn.functional.cosine_similarity(whole[1], whole[0], dim=0).item()
    return Distance(*key, _error(whole[1], whole[2]), _error(whole[0], whole[2]), cosine, tuple(single[:5]))


def _rmse(value: torch.Tensor, truth: torch.Tensor) -> float:
    return (value - truth).square().mean().sqrt().item()


def _error(value: torch.Tensor, truth: torch.Tensor) -> float:
    """RMSE relative to the root mean square of the truth."""
    size = truth.square().mean().sqrt().item()
    error = _rmse(value, truth)
    return error / size if size else (0.0 if error == 0 else float("inf"))


def first_loss_agrees(original: list[float], reference: list[float]) -> bool:
    """Whether the reference is of the same program: another random number would show in the first loss."""
    if not original or not reference:
        return False
    return abs(original[0] - reference[0]) <= 1e-3 * max(abs(original[0]), 1e-6)


def largest_parameter_difference(one: Path, other: Path) -> float:
    """Between the final parameters of two runs, relative to their size."""
    pairs = list(zip(load(one)["parameters"], load(other)["parameters"], strict=True))
    errors = [_error(b.double(), a.double()) for a, b in pairs if a.numel()]
    return max(errors, default=0.0)
