"""Gradients of the first steps against the float64 reference, as a run of the program has saved
them.

Errors are relative to the size of the reference, since a gradient has no natural scale.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from amp_migrate.runtime.distance import Distance, Layer


def load(folder: Path) -> dict[str, Any]:
    """What the probe saved in `folder`."""
    found: dict[str, Any] = torch.load(folder / "tensors.pt", weights_only=True)
    return found


def distances(
    original: Path, amp: Path, reference: Path | None
) -> list[Distance]:
    """One distance for each step whose gradients all of them kept; without a reference the float32
    run is it.
    """
    floats, halves = _steps(original), _steps(amp)
    doubles = _steps(reference) if reference is not None else floats
    return [
        _distance(
            key[:2],
            floats[key],
            halves[key]["gradients"],
            doubles[key]["gradients"],
        )
        for key in floats
        if key in halves and key in doubles
    ]


def rounded_as(distance: Distance, share: float) -> Distance:
    """`distance` whose baseline is of a run that was disturbed `1 / share` times as much as float32
    rounds.
    """
    layers = tuple(
        dataclasses.replace(layer, baseline=layer.baseline * share)
        for layer in distance.layers
    )
    return dataclasses.replace(
        distance, baseline=distance.baseline * share, layers=layers
    )


def first_steps_kept(original: Path, amp: Path) -> bool:
    """Whether the gradients of each optimizer's first step in the original are at hand from the
    other run too.
    """
    return {key for key in _steps(original) if key[1] == 0} <= set(_steps(amp))


def same_gradients(original: Path, other: Path) -> bool:
    """Whether the first gradients of both are of as many parameters, of the same shapes."""
    one, two = _steps(original), _steps(other)
    return all(
        _shapes(one[key]) == _shapes(two[key]) for key in one if key in two
    )


def _shapes(row: dict[str, Any]) -> list[Any]:
    return [
        None if gradient is None else gradient.shape
        for gradient in row["gradients"]
    ]


def _steps(folder: Path) -> dict[tuple[int, int, int], dict[str, Any]]:
    """By optimizer, attempt and the number of backwards before it: an attempt that comes later,
    since the program left one out, is of other data.
    """
    return {
        (row["optimizer"], row["attempt"], row["backwards"]): row
        for row in load(folder)["gradients"]
    }


def _distance(
    key: tuple[int, int],
    original: dict[str, Any],
    halves: list[Any],
    truth: list[Any],
) -> Distance:
    rows = list(
        zip(
            original["names"], original["gradients"], halves, truth, strict=True
        )
    )
    rows = [
        row for row in rows if all(gradient is not None for gradient in row[1:])
    ]
    if not rows:
        return Distance(*key, 0.0, 0.0, 1.0)
    layers = tuple(
        Layer(name, _error(h, t), _error(f, t), _slope(h, t), t.numel())
        for name, f, h, t in rows
    )
    single, half, true = (
        torch.cat([row[kind].flatten() for row in rows]) for kind in (1, 2, 3)
    )
    return Distance(
        *key,
        _error(half, true),
        _error(single, true),
        _slope(half, true),
        layers,
    )


def _slope(value: torch.Tensor, truth: torch.Tensor) -> float:
    size = truth.square().sum().item()
    return (value * truth).sum().item() / size if size else 1.0


def _rmse(value: torch.Tensor, truth: torch.Tensor) -> float:
    return (value - truth).square().mean().sqrt().item()


def _error(value: torch.Tensor, truth: torch.Tensor) -> float:
    """RMSE relative to the root mean square of the truth."""
    size = truth.square().mean().sqrt().item()
    error = _rmse(value, truth)
    return error / size if size else (0.0 if error == 0 else float("inf"))


def first_loss_agrees(original: list[float], reference: list[float]) -> bool:
    """Whether the reference is of the same program: another random number would show in the first
    loss.
    """
    if not original or not reference:
        return False
    return abs(original[0] - reference[0]) <= 1e-3 * max(abs(original[0]), 1e-6)


def largest_parameter_difference(one: Path, other: Path) -> float:
    """Between the final parameters of two runs, relative to their size."""
    pairs = list(
        zip(load(one)["parameters"], load(other)["parameters"], strict=True)
    )
    errors = [_error(b.double(), a.double()) for a, b in pairs if a.numel()]
    return max(errors, default=0.0)
