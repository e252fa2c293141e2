"""The helpers of `apex.fp16_utils` that training loops use beside `apex.amp`."""

from __future__ import annotations

import torch


def to_python_float(value: torch.Tensor) -> float:
    """The number in a tensor."""
    return float(value.item())
