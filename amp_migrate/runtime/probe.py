"""Measures a training program from inside its process: losses, gradients, steps, scale, time and
memory.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from amp_migrate.runtime.events import Event
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.measured import devices, elapsed, now, peak_memory
from amp_migrate.runtime.naming import parameter_names
from amp_migrate.runtime.optimizer_numbers import number
from amp_migrate.runtime.saves import Saves
from amp_migrate.runtime.trace import Trace

_EVERY_NORM = 10
"""So many first attempts of an optimizer, and one in so many later, have the norm of their
gradients taken: it reads every gradient once more, which is most of what measuring costs."""


class StopProgram(BaseException):
    """Raised in the user's program when enough steps are done; no `except Exception` catches it."""


class Probe:
    """Fills a Trace. Values stay on their device until `finish`, so that no step waits for the
    GPU.
    """

    def __init__(
        self,
        job: Job,
        progress: Callable[[int, float, float], None] | None = None,
    ) -> None:
        self.job = job
        self.trace = Trace(device=job.device, dtype=job.dtype)
        self.optimizers: dict[int, Any] = {}
        """Those that stepped, by number."""
        self.gradients: list[
            tuple[int, int, int, list[torch.Tensor | None]]
        ] = []
        self.saves: list[tuple[int, int]] = (
            Saves(self._place).places if job.watch_saves else []
        )
        self.before_stop: Callable[[], None] = lambda: None
        self.cost: Callable[[], float] = lambda: 0.0
        """Seconds that measuring took so far; set by who knows."""
        self._costs: list[tuple[float, float]] = []
        self._losses: list[torch.Tensor] = []
        self._norms: list[torch.Tensor | None] = []
        self._scales: list[torch.Tensor | None] = []
        self._counts: dict[int, int] = {}
        self._stamps: list[tuple[int, Any]] = []
        self._had_gradient: set[int] = set()
        self._waiting: dict[int, list[Any]] = {}
        self._progress = progress
        self._shown = 0.0
        self._stops = 0
        self._names: dict[int, str] = {}

    def on(self, event: Event) -> None:
        """Take note of `event`."""
        handler = getattr(self, f"_on_{event.kind}", None)
        if handler is not None:
            handler(event)

    def _on_backward(self, event: Event) -> None:
        if self.job.steps and self.done >= self.job.steps:
            self._stop()
        if 0 < self.job.stop_at_save <= len(self.saves):
            self._stop()
        for loss in event.tensors:
            value = loss if loss.numel() == 1 else loss.float().mean()
            self._losses.append(
                value.reshape(()).to(torch.float64, copy=True)
                if self._cpu
                else value.reshape(()).clone()
            )
            self.trace.loss_sites.append(str(event.site))
            self.trace.loss_steps.append(self.done)

    def _on_step(self, event: Event) -> None:
        """Of every attempt, also one that the scaler will skip."""
        if str(event.site) not in self.trace.step_sites:
            self.trace.step_sites.append(str(event.site))
        index = self._index(event.optimizer)
        self._norms.append(None)
        self._scales.append(_scale(event.scaler))
        if self.job.watch_saves:
            self.trace.trackers.append(_tracker(event.scaler))
        if self._is_sampled(index):
            parameters = _parameters(event.optimizer)
            if not self._counts[index]:
                self._name(parameters)
            self._waiting[index] = [
                p for p in parameters if id(p) not in self._had_gradient
            ]
        if any(p.grad is not None for p in self._waiting[index]):
            self._had_gradient.update(
                id(p) for p in self._waiting[index] if p.grad is not None
            )
            self._waiting[index] = [
                p for p in self._waiting[index] if p.grad is None
            ]

    def _is_sampled(self, index: int) -> bool:
        attempt = self._counts[index]
        return (
            attempt < max(_EVERY_NORM, self.job.record_gradients)
            or attempt % _EVERY_NORM == 0
        )

    def _on_gradients(self, event: Event) -> None:
        """Right before the optimizer applies them, so unscaled (fused optimizers unscale in their
        kernel).
        """
        index = self._index(event.optimizer)
        attempt = self._counts[index]
        if not self._is_sampled(index):
            return
        parameters = _parameters(event.optimizer)
        inverse = getattr(event.optimizer, "grad_scale", None)
        if self._norms:
            self._norms[-1] = _norm(
                [p.grad for p in parameters if p.grad is not None], inverse
            )
        if attempt < self.job.record_gradients:
            kept = [
                None if p.grad is None else _kept(p.grad, inverse)
                for p in parameters
            ]
            self.gradients.append((index, attempt, len(self._losses), kept))

    def _on_stepped(self, event: Event) -> None:
        index = self._index(event.optimizer)
        if (
            not event.taken
            and self.gradients
            and self.gradients[-1][:2] == (index, self._counts[index])
        ):
            self.gradients.pop()  # a fused optimizer finds out in its kernel that it must not step
        self._counts[index] += 1
        self.trace.optimizers.append(index)
        self.trace.taken.append(event.taken)
        self._stamps.append((index, now(self._cpu, devices(event.optimizer))))
        self._costs.append((time.perf_counter(), self.cost()))
        self._show()

    def _place(self) -> tuple[int, int]:
        return self.done, len(self._losses)

    @property
    def done(self) -> int:
        """Attempts of the optimizer with most of them."""
        return max(self._counts.values(), default=0)

    @property
    def _cpu(self) -> bool:
        return self.job.device == "cpu"

    def _on_optimizer(self, event: Event) -> None:
        number(event.optimizer)  # before any steps

    def _index(self, optimizer: Any) -> int:
        index = number(optimizer)
        if index not in self.optimizers:
            self.optimizers[index] = optimizer
            self._counts[index], self._waiting[index] = 0, []
        return index

    def _show(self) -> None:
        now = time.perf_counter()
        if self._progress is None or now - self._shown < 1.0:
            return
        self._shown = now
        loss = float(self._losses[-1].item()) if self._losses else float("nan")
        scale = self._scales[-1] if self._scales else None
        self._progress(
            self.done, loss, 1.0 if scale is None else float(scale.item())
        )

    def _stop(self) -> None:
        self._stops += 1
        if self._stops == 1:
            self.before_stop()
        raise StopProgram

    def finish(self, status: str, error: str = "") -> Trace:
        """Read everything from the devices and return the trace."""
        trace = self.trace
        trace.status, trace.error = status, error
        timed = self._costs[self.job.warmup :]
        if timed:
            trace.total_seconds, trace.probe_seconds = (
                end - start
                for start, end in zip(timed[0], timed[-1], strict=True)
            )
        trace.losses = [float(loss.item()) for loss in self._losses]
        trace.gradient_norms = [
            float("nan") if norm is None else float(norm.item())
            for norm in self._norms
        ]
        trace.scales = [
            1.0 if scale is None else float(scale.item())
            for scale in self._scales
        ]
        trace.step_seconds = self._seconds()
        trace.saves = self.saves
        trace.peak_memory_bytes = peak_memory(self._cpu)
        self._finish_parameters()
        return trace

    def _seconds(self) -> list[float]:
        main = self.trace.main_optimizer
        stamps = [stamp for index, stamp in self._stamps if index == main][
            self.job.warmup :
        ]
        if self._cpu:
            return [after - before for before, after in pairwise(stamps)]
        for device in range(torch.cuda.device_count()):
            torch.cuda.synchronize(device)
        return [elapsed(before, after) for before, after in pairwise(stamps)]

    def _finish_parameters(self) -> None:
        trace, parameters = self.trace, self.parameters()
        trace.parameter_names = [
            self._names.get(id(parameter), "") for parameter in parameters
        ]
        trace.parameter_shapes = [
            list(parameter.shape) for parameter in parameters
        ]
        trace.parameter_digests = [
            _digest(parameter) for parameter in parameters
        ]
        named = list(zip(trace.parameter_names, parameters, strict=True))
        trace.non_finite_parameters = [
            name for name, p in named if not _is_finite(p.detach())
        ]
        trace.without_gradient = [
            name
            for name, p in named
            if p.requires_grad and id(p) not in self._had_gradient
        ]

    def _name(self, parameters: list[Any]) -> None:
        """At the first step, since the modules may be gone when the program has ended."""
        new = [
            parameter
            for parameter in parameters
            if id(parameter) not in self._names
        ]
        self._names.update(
            zip(
                map(id, new),
                parameter_names(new, taken=set(self._names.values())),
                strict=True,
            )
        )

    def parameters(self) -> list[Any]:
        """What the optimizers train, each once."""
        found: dict[int, Any] = {}
        for _, optimizer in sorted(self.optimizers.items()):
            found.update(
                (id(parameter), parameter)
                for parameter in _parameters(optimizer)
            )
        return list(found.values())

    def save_tensors(self, folder: Path) -> None:
        """Final parameters and the recorded gradients, for the comparison; those of a run with AMP
        on, that was disturbed or left out steps, are compared with nothing.
        """
        job = self.job
        on = job.rewrites and job.switch is not False
        other = on or job.perturb or job.left_out
        values = [p.detach().cpu() for p in self.parameters() if not other]
        torch.save(
            {"parameters": values, "gradients": self._named_gradients()},
            folder / "tensors.pt",
        )

    def _named_gradients(self) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = []
        for index, attempt, backwards, kept in self.gradients:
            parameters = _parameters(self.optimizers[index])[: len(kept)]
            names = [
                self._names.get(id(parameter), "") for parameter in parameters
            ]
            row = {
                "optimizer": index,
                "attempt": attempt,
                "backwards": backwards,
                "names": names,
                "gradients": kept,
            }
            result.append(row)
        return result


def _parameters(optimizer: Any) -> list[Any]:
    return [
        parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]


def _scale(scaler: Any) -> torch.Tensor | None:
    scale = getattr(scaler, "_scale", None)
    return None if scale is None else scale.clone()


def _tracker(scaler: Any) -> float:
    """Good steps in a row; -1 where there is no scaler."""
    tracker = getattr(scaler, "_growth_tracker", None)
    return -1.0 if tracker is None else float(tracker.item())


def _norm(gradients: list[torch.Tensor], inverse: Any) -> torch.Tensor | None:
    dense = [g.coalesce()._values() if g.is_sparse else g for g in gradients]
    if not dense:
        return None
    with torch.no_grad():
        norms = list(torch._foreach_norm(dense))
        if len({(norm.device, norm.dtype) for norm in norms}) > 1:
            norms = [norm.to(dense[0].device, torch.float64) for norm in norms]
        total = torch.stack(norms).double().norm()
        return total if inverse is None else total / inverse


def _kept(gradient: torch.Tensor, inverse: Any) -> torch.Tensor:
    """On the CPU before anything else: what is measured must not take the GPU's memory."""
    here = gradient.detach().cpu()
    wide = (here.to_dense() if here.is_sparse else here).to(
        torch.float64, copy=True
    )
    return wide if inverse is None else wide / inverse.cpu()


def _is_finite(value: torch.Tensor) -> bool:
    """A sum that is finite has finite terms; one that is not may only be too long."""
    if value.layout is torch.strided and bool(torch.isfinite(value.sum())):
        return True
    return bool(torch.isfinite(value).all())


def _digest(tensor: torch.Tensor) -> str:
    value = tensor.detach().cpu().contiguous()
    raw = (
        value.view(torch.uint8)
        if value.dim()
        else value.reshape(1).view(torch.uint8)
    )
    told = f"{value.dtype}{tuple(value.shape)}".encode()
    found = hashlib.sha1(told, usedforsecurity=False)
    found.update(raw.numpy().data)
    return found.hexdigest()
