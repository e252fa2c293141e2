"""Watches an enabled GradScaler at work: what PyTorch leaves unsaid when it goes wrong is a
violation here.

PyTorch itself raises for a second unscale_ or step and for an update without a step. It is silent
about a bare step, about gradients that are read or clipped while they are scaled, and about
backward or step under autocast.
"""

from __future__ import annotations

import functools
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.harness.recorder import Recorder, parameters


class Protocol:
    """The state of every enabled scaler and optimizer of one run."""

    def __init__(self, recorder: Recorder) -> None:
        self.calls: Counter[str] = Counter()
        self.violations: list[str] = []
        self.scalers: list[torch.amp.GradScaler] = []
        self._recorder = recorder
        self._scaled: set[int] = set()
        """Parameters (by id) whose gradients carry the scale."""
        self._unscaled: set[int] = set()
        """Those whose gradients carried it before unscale_."""
        self._plain: set[int] = set()
        """Those of which a part of the gradient comes from a loss without scale."""
        self._stepping: torch.optim.Optimizer | None = None

    def install(self) -> None:
        scaler = torch.amp.GradScaler
        for name in ("__init__", "scale", "unscale_", "step", "update"):
            setattr(scaler, name, getattr(self, f"_{name.strip('_')}")(getattr(scaler, name)))
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            clip = self._clip(name, getattr(torch.nn.utils, name))
            setattr(torch.nn.utils, name, clip)
            setattr(torch.nn.utils.clip_grad, name, clip)
        torch.optim.Optimizer.zero_grad = self._clear(torch.optim.Optimizer.zero_grad)  # type: ignore[method-assign]
        register_optimizer_step_pre_hook(self._optimizer_steps)
        self._recorder.before_backward.append(self._backward)

    def trace(self) -> dict[str, Any]:
        scales = [float(scaler.get_scale()) for scaler in self.scalers]
        return {"calls": dict(self.calls), "violations": self.violations, "scales": scales}

    def gradient_read(self, parameter: torch.Tensor) -> None:
        """The program itself reads a gradient that exists."""
        if id(parameter) in self._scaled:
            self._violation("gradient read while scaled")

    def _violation(self, what: str) -> None:
        frames = [
            frame
            for frame in traceback.extract_stack()
            if frame.filename.endswith(("before.py", "after.py"))
        ]
        where = f"line {frames[-1].lineno}: {frames[-1].line}" if frames else "unknown place"
        self.violations.append(f"{what} ({where})")

    def _backward(self, roots: list[torch.Tensor]) -> bool:
        """Called before each backward; tells whether its roots are scaled."""
        scaled = all(hasattr(root, "is_scaled") for root in roots)
        if torch.is_autocast_enabled("cpu"):
            self._violation("backward under autocast")
        self.calls["backward"] += scaled
        reached = self._scaled if scaled else self._plain
        for optimizer in self._recorder.optimizers:
            reached |= _identities(optimizer)
        return scaled

    def _init(self, init: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(init)
        def watched(scaler: torch.amp.GradScaler, *args: Any, **kwargs: Any) -> None:
            init(scaler, *args, **kwargs)
            if scaler.is_enabled():
                self.scalers.append(scaler)

        return watched

    def _scale(self, scale: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(scale)
        def watched(scaler: torch.amp.GradScaler, outputs: Any) -> Any:
            result = scale(scaler, outputs)
            if scaler.is_enabled():
                self.calls["scale"] += 1
                for loss, scaled in zip(_listed(outputs), _listed(result), strict=True):
                    self._recorder.record(loss)
                    scaled.is_scaled = True  # type: ignore[attr-defined]
            return result

        return watched

    def _unscale(self, unscale: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(unscale)
        def watched(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
            unscale(scaler, optimizer)
            if scaler.is_enabled():
                self.calls["unscale_"] += 1
                self._unscaled |= self._scaled & _identities(optimizer)
                self._scaled -= _identities(optimizer)

        return watched

    def _step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def watched(
            scaler: torch.amp.GradScaler,
            optimizer: torch.optim.Optimizer,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            self.calls["step"] += scaler.is_enabled()
            if torch.is_autocast_enabled("cpu"):
                self._violation("step under autocast")
            if scaler.is_enabled() and self._plain & _with_gradient(optimizer):
                self._violation("scaler steps on gradients of an unscaled loss")
            self._stepping = optimizer
            try:
                return step(scaler, optimizer, *args, **kwargs)
            finally:
                self._stepping = None
                self._forget(optimizer)

        return watched

    def _clear(self, clear: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(clear)
        def watched(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            clear(optimizer, *args, **kwargs)
            self._plain.difference_update(_identities(optimizer))

        return watched

    def _update(self, update: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(update)
        def watched(scaler: torch.amp.GradScaler, *args: Any, **kwargs: Any) -> None:
            self.calls["update"] += scaler.is_enabled()
            update(scaler, *args, **kwargs)

        return watched

    def _clip(self, name: str, clip: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(clip)
        def watched(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            given = _listed(tensors)
            if any(id(it) in self._scaled for it in given if it.grad is not None):
                self._violation(f"{name} of scaled gradients")
            self.calls["clip"] += 1
            return clip(given, *args, **kwargs)

        return watched

    def _optimizer_steps(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._stepping is optimizer:
            return
        if (self._scaled | self._unscaled) & _with_gradient(optimizer):
            self._violation("optimizer stepped without its scaler")
        self._forget(optimizer)

    def _forget(self, optimizer: torch.optim.Optimizer) -> None:
        """What comes after a step begins anew."""
        for gradients in (self._scaled, self._unscaled, self._plain):
            gradients.difference_update(_identities(optimizer))


def _listed(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _identities(optimizer: torch.optim.Optimizer) -> set[int]:
    return {id(parameter) for parameter in parameters(optimizer)}


def _with_gradient(optimizer: torch.optim.Optimizer) -> set[int]:
    return {id(parameter) for parameter in parameters(optimizer) if parameter.grad is not None}
