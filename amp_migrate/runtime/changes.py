"""What a run does differently on purpose: other parameters at the start, steps left out, another
first scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

from amp_migrate.runtime.events import Event
from amp_migrate.runtime.optimizer_numbers import number


class Perturbation:
    """Disturbs the parameters of each optimizer once, before its first step, by less than half
    precision rounds, and its gradients at every step by as much of their size: an optimizer like
    Adam makes whole steps of what is small in a gradient, and there rounding has its say.
    """

    def __init__(self, size: float, kind: str = "gradients") -> None:
        self._size = size
        self._kind = kind
        self._done: set[int] = set()
        self._generator = torch.Generator("cpu").manual_seed(0)

    def on(self, event: Event) -> None:
        """Disturb the parameters at the first step of an optimizer, the gradients at each."""
        if event.kind != self._kind:
            return
        if self._kind == "gradients":
            self._gradients(event.optimizer)
        if id(event.optimizer) in self._done:
            return
        self._done.add(id(event.optimizer))
        generator = torch.Generator().manual_seed(len(self._done))
        with torch.no_grad():
            for parameter in _parameters(event.optimizer):
                noise = torch.randn(
                    parameter.shape, generator=generator, device="cpu"
                )
                parameter.mul_(
                    1 + self._size * noise.to(parameter.device, parameter.dtype)
                )

    def _gradients(self, optimizer: Any) -> None:
        with torch.no_grad():
            for parameter in _parameters(optimizer):
                gradient = parameter.grad
                if (
                    gradient is not None
                    and not gradient.is_sparse
                    and gradient.numel()
                ):
                    noise = torch.randn(
                        gradient.shape, generator=self._generator, device="cpu"
                    )
                    size = self._size * gradient.square().mean().sqrt()
                    gradient.add_(
                        size * noise.to(gradient.device, gradient.dtype)
                    )


class LeavingOut:
    """Has an optimizer find no gradients in some steps, as a scaler does that skips them."""

    def __init__(self, steps: Iterable[tuple[int, int]]) -> None:
        self._steps = set(steps)
        self._attempts: Counter[int] = Counter()
        self._hidden: list[tuple[Any, Any]] = []

    def on(self, event: Event) -> None:
        """Hide the gradients before such a step, and bring them back."""
        if event.kind == "gradients":
            index = number(event.optimizer)
            if (index, self._attempts[index]) in self._steps:
                self._hidden = [
                    (p, p.grad) for p in _parameters(event.optimizer)
                ]
                for parameter, _ in self._hidden:
                    parameter.grad = None
        elif event.kind == "stepped":
            self._attempts[number(event.optimizer)] += 1
            for parameter, gradient in self._hidden:
                parameter.grad = gradient
            self._hidden = []


def start_scale(value: float) -> None:
    """Have every enabled scaler of this process begin with `value`."""
    kind: Any = torch.amp.GradScaler
    make: Callable[..., None] = kind.__init__

    def made(scaler: Any, *arguments: Any, **keywords: Any) -> None:
        make(scaler, *arguments, **keywords)
        if scaler.is_enabled():
            scaler._init_scale = value

    kind.__init__ = made


def _parameters(optimizer: Any) -> list[Any]:
    return [
        parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
