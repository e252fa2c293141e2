"""`apex.amp` as it is with opt_level O0: float32, and no scaling."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


def initialize(models: Any, optimizers: Any = None, **settings: Any) -> Any:
    """Hand back what was given."""
    return models if optimizers is None else (models, optimizers)


@contextlib.contextmanager
def scale_loss(loss: torch.Tensor, optimizers: Any, **settings: Any) -> Iterator[torch.Tensor]:
    """The loss itself."""
    yield loss


def master_params(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """The parameters of an optimizer."""
    for group in optimizer.param_groups:
        yield from group["params"]


def state_dict() -> dict[str, Any]:
    """What apex keeps of its scalers."""
    return {"loss_scaler0": {"loss_scale": 1.0, "unskipped": 0}}


def load_state_dict(state: dict[str, Any]) -> None:
    """Take the scalers back."""
    if "loss_scaler0" not in state:
        raise ValueError("not a state of apex.amp")
