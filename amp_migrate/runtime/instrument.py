"""Wraps the few functions of torch through which every training step goes, and tells listeners
about each call.

Arguments, results and errors pass through unchanged, no random number is drawn and no graph is
touched.
"""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from amp_migrate.runtime.call_site import call_site
from amp_migrate.runtime.events import Event, Listener, Site
from amp_migrate.runtime.owned import is_part, parameters_of
from amp_migrate.runtime.reads import measuring_lines

_GRAD: Any = torch._C.TensorBase.grad
NOWHERE = Site("", 0)
"""Of events that end what another one began: nobody asks for their line."""
CLIPPERS = (
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
)


class Instrument:
    """Patches torch once and sends events to `listeners`, in their order."""

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self._listeners = tuple(listeners)
        self._heard: dict[str, tuple[Listener, ...]] = {}
        self.seconds = 0.0
        """What measuring has cost so far."""
        self.failures: list[str] = []
        """What listeners died of."""
        self.captured = 0
        """Events while a CUDA graph was captured."""
        self._inside: list[
            str
        ] = []  # calls under way: what torch calls by itself is no event of the user's
        self._stepping: Any = None
        self._outer: Any = None
        self._taken = False
        self._scaled = False
        self._looking = False

    def install(self) -> None:
        """Wrap backward, the scaler, the clippers; and hook the optimizers by torch's own hooks."""
        self._wrap(
            torch.Tensor,
            "backward",
            self._on_tensor_backward,
            self._after_backward,
        )
        self._wrap(
            torch.autograd,
            "backward",
            self._on_autograd_backward,
            self._after_backward,
        )
        self._wrap(torch.optim.Optimizer, "zero_grad", self._on_zero)
        self._wrap(torch.nn.Module, "zero_grad", self._on_zero)
        self._wrap(torch.amp.GradScaler, "scale", self._on_scale)
        self._wrap(torch.amp.GradScaler, "unscale_", self._on_unscale)
        self._wrap(
            torch.amp.GradScaler, "update", self._on_update, self._after_update
        )
        self._wrap_make(
            torch.amp.GradScaler,
            lambda scaler: self._emit("make", scaler=scaler),
        )
        self._wrap_make(
            torch.optim.Optimizer,
            lambda optimizer: self._emit("optimizer", optimizer=optimizer),
        )
        self._wrap_scale_result()
        self._wrap_step()
        self._wrap_region()
        for module in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in CLIPPERS:
                if hasattr(module, name):
                    self._wrap_reader(module, name)
        register_optimizer_step_pre_hook(self._before_optimizer)
        register_optimizer_step_post_hook(self._after_optimizer)

    def _hearing(self, kind: str) -> tuple[Listener, ...]:
        """Those that have a handler for `kind`; listeners without handlers of their own hear
        everything.
        """
        if kind not in self._heard:
            kinds = [
                [name for name in dir(type(one)) if name.startswith("_on_")]
                for one in self._listeners
            ]
            pairs = zip(self._listeners, kinds, strict=True)
            self._heard[kind] = tuple(
                one
                for one, names in pairs
                if not names or f"_on_{kind}" in names
            )
        return self._heard[kind]

    def _emit(self, kind: str, **facts: Any) -> None:
        listeners = self._hearing(kind)
        if not listeners:
            return
        if (
            torch.cuda.is_current_stream_capturing()
        ):  # a graph would hold what measures, too
            self.captured += 1
            return
        began = time.perf_counter()
        event = Event(kind, facts.pop("site", None) or call_site(), **facts)
        # The modes of the emulation and the reference are for the program; here they would cost
        # more than the looking.
        self._inside.append(
            kind
        )  # what listeners do is no event of the user's either
        try:
            with torch._C.DisableTorchFunction():
                for listener in listeners:
                    self._tell(listener, event)
        finally:
            self._inside.pop()
        self.seconds += time.perf_counter() - began

    def _tell(self, listener: Listener, event: Event) -> None:
        """What goes wrong in a listener is not the program's: it is told, and heard no more."""
        try:
            listener.on(event)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            told = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            self.failures.append(
                f"{type(listener).__name__} at {event.site}: {told}"
            )
            self._listeners = tuple(
                one for one in self._listeners if one is not listener
            )
            self._heard.clear()

    def _wrap(
        self,
        owner: Any,
        name: str,
        before: Callable[..., None],
        after: Callable[..., None] | None = None,
    ) -> None:
        """Call `before` with the arguments, and `after` once it is done, for calls that torch does
        not make itself.
        """
        function = getattr(owner, name)

        @functools.wraps(function)
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            outer = not self._inside
            if outer:
                before(*arguments, **keywords)
            self._inside.append(name)
            try:
                result = function(*arguments, **keywords)
            finally:
                self._inside.pop()
            if outer and after is not None:
                after(*arguments, **keywords)
            return result

        setattr(owner, name, wrapper)

    def _after_backward(self, *_: Any, **__: Any) -> None:
        self._emit("backwarded", site=NOWHERE)
        self._look_at_reads(self._scaled)

    def _look_at_reads(self, on: bool) -> None:
        """Watch `Tensor.grad` while gradients are scaled: from the backward to the step, so that
        all else is free.
        """
        if on and not self._looking:
            torch.Tensor.grad = property(
                self._read, _GRAD.__set__, _GRAD.__delete__
            )  # type: ignore[assignment]
        elif self._looking and not on:
            del torch.Tensor.grad  # the inherited one is there again
        self._looking = on

    def _read(self, tensor: torch.Tensor) -> Any:
        if not self._inside:
            site = call_site()
            if site.line in measuring_lines(site.file):
                self._emit("read", site=site, tensors=(tensor,), detail="grad")
        return _GRAD.__get__(tensor)

    def _on_zero(self, owner: Any, *_: Any, **__: Any) -> None:
        self._look_at_reads(False)
        self._emit("zero", tensors=tuple(parameters_of(owner)))

    def _on_tensor_backward(
        self, tensor: torch.Tensor, *_: Any, **__: Any
    ) -> None:
        self._backward((tensor,))

    def _on_autograd_backward(self, tensors: Any, *_: Any, **__: Any) -> None:
        self._backward(
            (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
        )

    def _backward(self, tensors: tuple[torch.Tensor, ...]) -> None:
        losses = tuple(
            getattr(tensor, "_amp_migrate_loss", tensor).detach()
            for tensor in tensors
        )
        scaler = next(
            (
                tensor._amp_migrate_scaler
                for tensor in tensors
                if hasattr(tensor, "_amp_migrate_scaler")
            ),
            None,
        )
        self._scaled = scaler is not None
        roots = tuple(tensor.grad_fn for tensor in tensors)
        self._emit(
            "backward",
            tensors=losses,
            roots=roots,
            scaled=self._scaled,
            scaler=scaler,
        )

    def _wrap_make(self, kind: Any, tell: Callable[[Any], None]) -> None:
        make = kind.__init__

        @functools.wraps(make)
        def wrapper(made: Any, *arguments: Any, **keywords: Any) -> None:
            make(made, *arguments, **keywords)
            tell(made)

        kind.__init__ = wrapper

    def _on_scale(self, scaler: Any, outputs: Any) -> None:
        if scaler.is_enabled():
            self._emit("scale", scaler=scaler)

    def _wrap_scale_result(self) -> None:
        """Remember on the scaled loss what it was before, so that the probe sees the loss that the
        user means.
        """
        scale = torch.amp.GradScaler.scale

        @functools.wraps(scale)
        def wrapper(scaler: Any, outputs: Any) -> Any:
            result = scale(scaler, outputs)
            if scaler.is_enabled():
                _label(outputs, result, scaler)
            return result

        torch.amp.GradScaler.scale = wrapper  # type: ignore[method-assign, assignment]

    def _on_unscale(self, scaler: Any, optimizer: Any) -> None:
        if scaler.is_enabled():
            self._emit("unscale", scaler=scaler, optimizer=optimizer)

    def _on_update(self, scaler: Any, *_: Any, **__: Any) -> None:
        if scaler.is_enabled():
            self._emit("update", scaler=scaler)

    def _after_update(self, scaler: Any, *_: Any, **__: Any) -> None:
        if scaler.is_enabled():
            self._emit("updated", scaler=scaler, site=NOWHERE)

    def _wrap_reader(self, module: Any, name: str) -> None:
        function = getattr(module, name)

        @functools.wraps(function)
        def wrapper(parameters: Any, *arguments: Any, **keywords: Any) -> Any:
            # A generator would be used up by looking at it, and each of these functions lists it
            # anyway.
            listed = (
                parameters
                if isinstance(parameters, torch.Tensor)
                else list(parameters)
            )
            tensors = (
                (listed,) if isinstance(listed, torch.Tensor) else tuple(listed)
            )
            if not self._inside:
                self._emit("read", tensors=tensors, detail=name)
            self._inside.append(name)
            try:
                return function(listed, *arguments, **keywords)
            finally:
                self._inside.pop()

        setattr(module, name, wrapper)

    def _wrap_region(self) -> None:
        region: Any = torch.amp.autocast_mode.autocast
        enter = region.__enter__

        @functools.wraps(enter)
        def wrapper(context: Any) -> Any:
            result = enter(context)
            if context._enabled and context.device in ("cuda", "cpu"):
                self._emit(
                    "region",
                    detail=str(context.fast_dtype).removeprefix("torch."),
                )
            return result

        region.__enter__ = wrapper

    def _wrap_step(self) -> None:
        kind: Any = torch.amp.GradScaler
        step = kind.step

        @functools.wraps(step)
        def wrapper(
            scaler: Any, optimizer: Any, *arguments: Any, **keywords: Any
        ) -> Any:
            if not scaler.is_enabled():
                return step(scaler, optimizer, *arguments, **keywords)
            self._look_at_reads(False)
            self._emit("step", scaler=scaler, optimizer=optimizer)
            self._inside.append("step")
            self._stepping, self._taken = optimizer, False
            try:
                result = step(scaler, optimizer, *arguments, **keywords)
            finally:
                self._inside.pop()
                self._stepping = None
            taken = self._taken and not _found_inf(scaler, optimizer)
            self._emit(
                "stepped",
                site=NOWHERE,
                scaler=scaler,
                optimizer=optimizer,
                taken=taken,
            )
            return result

        kind.step = wrapper

    def _before_optimizer(
        self, optimizer: Any, arguments: Any, keywords: Any
    ) -> None:
        self._look_at_reads(False)
        if not is_part(optimizer, self._stepping, self._outer):
            self._outer = optimizer
            if self._stepping is not optimizer:
                self._emit("step", optimizer=optimizer)
        self._emit("gradients", optimizer=optimizer, site=NOWHERE)

    def _after_optimizer(
        self, optimizer: Any, arguments: Any, keywords: Any
    ) -> None:
        self._taken = True
        if is_part(optimizer, self._stepping, self._outer):
            return
        self._outer = None
        if self._stepping is not optimizer:
            self._emit("stepped", optimizer=optimizer, site=NOWHERE)


def _label(outputs: Any, result: Any, scaler: Any) -> None:
    if isinstance(result, torch.Tensor):
        result._amp_migrate_loss = outputs  # type: ignore[attr-defined]
        result._amp_migrate_scaler = scaler  # type: ignore[attr-defined]
    elif isinstance(result, (list, tuple)):
        for before, after in zip(outputs, result, strict=False):
            _label(before, after, scaler)


def _found_inf(scaler: Any, optimizer: Any) -> bool:
    """Only fused optimizers decide in their kernel whether to step; for the others no value is
    read.
    """
    if not getattr(optimizer, "_step_supports_amp_scaling", False):
        return False
    found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
    return any(bool(value.item()) for value in found.values())
