"""What the numbers of a failed run say, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from amp_migrate.runtime.gradients import load
from amp_migrate.runtime.trace import Trace

SMALLEST = 2.0**-24
"""The smallest positive float16; half of it is rounded to zero."""
_ISLAND = '`with torch.autocast("cuda", enabled=False):` around it, on inputs `.float()`'


@dataclass(frozen=True)
class Underflow:
    """One parameter's gradient in the first step. Shares are of the values that are not zero in
    the reference.
    """

    parameter: str
    lost: float
    """Zero in the AMP run."""
    lost_unscaled: float
    """Too small for float16 without a scaler."""
    scale: float | None
    """The smallest power of two that keeps 99% of the values; None where all are zero."""


def underflow(truth: Path, amp: Path) -> list[Underflow]:
    """Per parameter, from the gradients of every optimizer's first step that both runs have."""
    halves = {
        (row["optimizer"], row["attempt"]): row
        for row in load(amp)["gradients"]
    }
    found = []
    for row in load(truth)["gradients"]:
        other = halves.get((row["optimizer"], row["attempt"]))
        if row["attempt"] == 0 and other is not None:
            found += [
                _underflow(name, true, half)
                for name, true, half in zip(
                    row["names"],
                    row["gradients"],
                    other["gradients"],
                    strict=True,
                )
                if true is not None and half is not None
            ]
    return found


def _underflow(name: str, true: torch.Tensor, half: torch.Tensor) -> Underflow:
    there = true != 0
    sizes = true[there].abs()
    if not sizes.numel():
        return Underflow(name, 0.0, 0.0, None)
    lost = (half[there] == 0).double().mean().item()
    small = sizes.kthvalue(max(sizes.numel() // 100, 1)).values.item()
    return Underflow(
        name,
        lost,
        (sizes < SMALLEST / 2).double().mean().item(),
        scale_for(small),
    )


def scale_for(value: float) -> float:
    """The smallest power of two, at least 1, that lifts `value` to what float16 can hold."""
    return (
        float(max(2.0 ** math.ceil(math.log2(SMALLEST / value)), 1.0))
        if value > 0
        else math.inf
    )


def module_errors(truth: Path, amp: Path) -> list[tuple[str, float]]:
    """Modules by the relative RMSE of their first output to that of the reference, the largest
    first.
    """
    one, other = (
        torch.load(folder / "outputs.pt", weights_only=True)
        for folder in (truth, amp)
    )
    if one["names"] != other["names"]:
        return []
    rows = [
        (name, _relative(half, true))
        for name, true, half in zip(
            one["names"], one["values"], other["values"], strict=True
        )
    ]
    return sorted(rows, key=lambda row: -row[1])


def _relative(value: torch.Tensor, truth: torch.Tensor) -> float:
    if value.shape != truth.shape or not truth.numel():
        return 0.0
    size = truth.square().mean().sqrt().item()
    error = (value - truth).square().mean().sqrt().item()
    return (
        error / size
        if size and math.isfinite(error)
        else (0.0 if not error else math.inf)
    )


def suspects(trace: Trace, errors: list[tuple[str, float]]) -> list[str]:
    """Modules to try in float32, the likeliest first."""
    found = [
        trace.diagnosis[way]["module"]
        for way in ("forward", "backward")
        if way in trace.diagnosis
    ]
    return list(
        dict.fromkeys(
            [*found, *(name for name, error in errors[:2] if error > 0.01)]
        )
    )


def advice(
    trace: Trace, errors: list[tuple[str, float]], lost: list[Underflow]
) -> Iterator[str]:
    """Plain sentences, the most telling first."""
    if (
        "binary_cross_entropy" in trace.error
        and "unsafe to autocast" in trace.error
    ):
        yield "use BCEWithLogitsLoss on the logits in the place of a sigmoid and BCELoss"
    forward: dict[str, Any] | None = trace.diagnosis.get("forward")
    backward: dict[str, Any] | None = trace.diagnosis.get("backward")
    if forward:
        yield _first(forward, "returned")
        yield from _eps(forward)
        yield (
            f"keep module {forward['module']} in float32: {_ISLAND}; or use --dtype bfloat16, "
            "with float32's range"
        )
    elif backward and backward["scale"] <= 1:
        yield (
            f"{_first(backward, 'was sent')} in backward, at a loss scale of {backward['scale']:g}"
        )
        yield from _eps(backward)
        yield f"keep module {backward['module']} in float32: {_ISLAND}; or use --dtype bfloat16"
    worst = max(lost, key=lambda one: one.lost, default=None)
    if worst is not None and worst.lost > 0.1:
        scale = max(one.scale or 1.0 for one in lost if one.lost > 0.1)
        saved = f"a loss scale of {scale:g} would save it"
        yield f"{worst.lost:.0%} of the gradient of {worst.parameter} is lost to zero; {saved}"
    if errors and errors[0][1] > 0.01:
        told = ", ".join(f"{name} ({error:.2g})" for name, error in errors[:3])
        yield f"outputs that differ most from float64, relative: {told}"


def _eps(what: dict[str, Any]) -> Iterator[str]:
    if "eps" in what:
        told = (
            f"module {what['module']} guards with {what['eps']:g} ({what['eps_at']}), which "
            "float16 rounds to zero"
        )
        yield f"{told}; use an eps of 1e-6 or more there, or give it float32"


def _first(what: dict[str, Any], verb: str) -> str:
    size = what["largest_input"]
    told = (
        f", from inputs up to {size:.3g}"
        if size is not None and math.isfinite(size)
        else ""
    )
    module = f"module {what['module']} ({what['type']})"
    return f"{module} first {verb} inf or NaN, as {what['dtype']}, at step {what['step']}{told}"
