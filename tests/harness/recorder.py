"""Losses at each backward, steps, and the parameters of every optimizer at its construction and at
the end.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


class Recorder:
    """Observes one run; `install` once, before the program is run."""

    def __init__(self) -> None:
        self.losses: list[torch.Tensor] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.before_backward: list[Callable[[list[torch.Tensor]], bool]] = []
        """Asked at each backward; True when the tensors are scaled ones, whose losses are recorded
        elsewhere.
        """
        self._initial: list[list[str]] = []
        self._steps = 0
        self._in_backward = False

    def install(self) -> None:
        torch.autograd.backward = self._recording_backward(torch.autograd.backward)
        torch.optim.Optimizer.__init__ = self._recording_init(torch.optim.Optimizer.__init__)  # type: ignore[method-assign]
        register_optimizer_step_post_hook(self._count_step)

    def record(self, loss: torch.Tensor) -> None:
        self.losses.append(loss.detach().clone())

    def trace(self) -> dict[str, Any]:
        return {
            "losses": [float(loss.double().sum()) for loss in self.losses],
            "loss_digests": [digest(loss) for loss in self.losses],
            "parameters": [
                [digest(parameter) for parameter in parameters(it)] for it in self.optimizers
            ],
            "initial_parameters": self._initial,
            "steps": self._steps,
        }

    def _recording_backward(self, backward: Callable[..., None]) -> Callable[..., None]:
        # Tensor.backward calls torch.autograd.backward by its attribute, so one patch sees both.
        @functools.wraps(backward)
        def recording(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if self._in_backward:  # torch calls it again where a TorchFunctionMode is active
                return backward(tensors, *args, **kwargs)
            roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
            scaled = [ask(roots) for ask in self.before_backward]
            if not any(scaled):
                for root in roots:
                    self.record(root)
            self._in_backward = True
            try:
                return backward(tensors, *args, **kwargs)
            finally:
                self._in_backward = False

        return recording

    def _recording_init(self, init: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(init)
        def recording(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            init(optimizer, *args, **kwargs)
            self.optimizers.append(optimizer)
            self._initial.append([digest(parameter) for parameter in parameters(optimizer)])

        return recording

    def _count_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._steps += 1


def parameters(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def digest(tensor: torch.Tensor) -> str:
    """A name for the tensor's dtype, shape and bits, so that 0.0 and -0.0 differ and NaN equals
    itself.
    """
    plain = tensor.detach().contiguous().reshape(-1)
    bits = bytes(plain.view(torch.uint8).tolist())
    return f"{plain.dtype} {tuple(tensor.shape)} {hashlib.sha256(bits).hexdigest()}"
