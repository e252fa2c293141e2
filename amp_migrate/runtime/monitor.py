"""Watches AMP's protocol in the running program: feeds what happens to the state machine that the
static rules use.

Whose gradients a backward produced is not asked of the program but seen: the gradients of an
optimizer's parameters that changed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from amp_migrate.model.steps.events import EventKind
from amp_migrate.protocol import machine as protocol
from amp_migrate.runtime.events import Event, Site
from amp_migrate.runtime.trace import Violation

_SAMPLE = 16
_advance = functools.lru_cache(maxsize=4096)(
    protocol.advance
)  # every step of a program takes the same few ways
_CLIPPERS = {"clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"}
MESSAGES = {
    "bare-optimizer-step": "the optimizer applies gradients that still carry the loss scale",
    "bare-step-after-unscale": (
        "the optimizer steps by itself after unscale_, so an overflow goes into the parameters"
    ),
    "double-optimizer-step": "the optimizer steps a second time with the same gradients",
    "clip-without-unscale": (
        "gradients that still carry the loss scale are clipped; call scaler.unscale_ before"
    ),
    "unscale-after-clip": "unscale_ comes after the clipping that needs it",
    "grad-read-before-unscale": "gradients that still carry the loss scale are read",
    "unscaled-backward-with-scaler-step": "scaler.step divides gradients that no scaled loss made",
    "partially-scaled-losses": "gradients of a scaled loss are mixed with others",
    "update-while-accumulating": (
        "the scale was updated between two backwards whose gradients are added"
    ),
    "update-between-optimizers": "the scale was updated between the backward and the step",
    "unscale-each-micro-batch": (
        "gradients are unscaled, then added to: a part is divided by the scale twice"
    ),
    "double-or-stray-update": "update() runs where no step has recorded its inf checks",
    "double-unscale": "unscale_ is called twice before update",
    "missing-scaler-update": "update() is missing since the last step",
    "update-not-on-every-path": "unscale_ was called, but update() was not reached",
    "optimizer-without-grads": "scaler.step finds no gradient in this optimizer",
    "backward-inside-autocast": "backward runs inside autocast",
    "step-inside-autocast": (
        "the optimizer steps inside autocast, so later forwards of the region see old weights"
    ),
    "scaler-created-per-epoch": (
        "a new scaler took over, so the scale starts again from its initial value"
    ),
    "scaler-in-loop": "a new scaler is made for every step, so the scale never adapts",
    "param-in-two-optimizers": "parameters shared by two optimizers are unscaled twice",
    "loss-scale-collapse": "the loss scale fell below 1: step after step overflows",
    "fp16-without-scaler": (
        "float16 gradients are applied that no scaler protected from flushing to zero"
    ),
}


@dataclasses.dataclass
class _Optimizer:
    """One optimizer of the program; `marks` tell whether its gradients changed."""

    name: str
    parameters: list[Any]
    marks: list[tuple[int, int] | None] = dataclasses.field(
        default_factory=list
    )
    scaler: Any = None


@dataclasses.dataclass
class _Scaler:
    """One enabled scaler of the program."""

    scaler: Any
    made: Site
    state: protocol.State = dataclasses.field(default_factory=protocol.State)


class Monitor:
    """Listens to events and collects violations; never changes or stops the program."""

    def __init__(
        self, step: Callable[[], int] = lambda: 0, simulated: bool = False
    ) -> None:
        self._step = step
        self._simulated = simulated
        self._optimizers: dict[int, tuple[Any, _Optimizer]] = {}
        self._groups: dict[int, tuple[Any, _Optimizer]] = {}
        self._cleared: set[int] = set()
        """Parameters whose gradients were cleared since an optimizer unscaled them."""
        self._scalers: dict[int, _Scaler] = {}
        self._places: dict[Site, int] = {}
        self._found: dict[tuple[str, str, int], Violation] = {}
        self._backward: Event | None = None
        self._float16_forward = False
        self.regions = 0
        self.steps_inside = 0

    def violations(self) -> list[Violation]:
        """Those found so far, each line once."""
        return list(self._found.values())

    def on(self, event: Event) -> None:
        """Follow `event`."""
        handler = getattr(self, f"_on_{event.kind}", None)
        if handler is not None:
            handler(event)

    def _report(self, rule: str, site: Site) -> None:
        key = (rule, site.file, site.line)
        known = self._found.get(key)
        if known is None:
            self._found[key] = Violation(
                rule,
                MESSAGES.get(rule, rule),
                site.file,
                site.line,
                self._step(),
            )
        else:
            self._found[key] = dataclasses.replace(known, count=known.count + 1)

    def _advance(
        self, kind: EventKind, event: Event, names: Iterable[str] = ()
    ) -> None:
        """Tell the state machine of the event's scaler; of every scaler where none is named."""
        told = protocol.Event(
            kind,
            tuple(names),
            self._places.setdefault(event.site, len(self._places)),
        )
        regions = int(_autocast_on())
        for scaler in self._scalers.values():
            if event.scaler is None or scaler.scaler is event.scaler:
                state = scaler.state
                if state.regions != regions:
                    state = state._replace(regions=regions)
                scaler.state, violations = _advance(state, told)
                for violation in violations:
                    self._report(
                        violation.rule, list(self._places)[violation.where]
                    )

    def _optimizer(self, optimizer: Any) -> _Optimizer:
        """One that holds the groups of another, as wrappers do, is that one."""
        groups = optimizer.param_groups
        if id(groups) not in self._groups:
            name = str(len(self._optimizers))
            one = optimizer, _Optimizer(name, _sample(optimizer))
            known = self._optimizers.setdefault(id(optimizer), one)[1]
            self._groups[id(groups)] = groups, known
        return self._groups[id(groups)][1]

    def _all(self) -> list[_Optimizer]:
        """Each once, and of those that hold the same groups the first."""
        found = reversed(self._optimizers.values())
        first = {id(one.param_groups): known for one, known in found}
        return [*reversed(first.values())]

    def _owners(self, tensors: Iterable[Any]) -> list[str]:
        wanted = {id(tensor) for tensor in tensors}
        return [
            known.name
            for known in self._all()
            if any(id(p) in wanted for p in known.parameters)
        ]

    def _on_optimizer(self, event: Event) -> None:
        known = self._optimizer(event.optimizer)
        self._advance(EventKind.OPTIMIZER_CREATED, event, [known.name])

    def _on_make(self, event: Event) -> None:
        if event.scaler.is_enabled():
            self._scalers[id(event.scaler)] = _Scaler(event.scaler, event.site)

    def _on_region(self, event: Event) -> None:
        self.regions += 1
        if event.detail == "float16" and torch.is_grad_enabled():
            self._float16_forward = True

    def _on_backward(self, event: Event) -> None:
        self._backward = event
        for known in self._all():
            known.marks = [_mark(parameter) for parameter in known.parameters]
            if self._is_mixed(known) and _is_zero(known.parameters):
                self._advance(
                    EventKind.ZERO_GRAD,
                    dataclasses.replace(event, scaler=None),
                    [known.name],
                )

    def _is_mixed(self, known: _Optimizer) -> bool:
        """Whether gradients other than those of a backward of this kind are thought to be there."""
        held = (
            scaler.state.of(known.name).gradients
            for scaler in self._scalers.values()
        )
        return any(gradients - {"scaled"} for gradients in held)

    def _on_backwarded(self, event: Event) -> None:
        if self._backward is None:
            return
        names = []
        for known in self._all():
            marks = [_mark(parameter) for parameter in known.parameters]
            if any(
                new is not None and new != old
                for new, old in zip(marks, known.marks, strict=True)
            ):
                names.append(known.name)
        kind: EventKind = (
            EventKind.SCALED_BACKWARD
            if self._backward.scaled
            else EventKind.PLAIN_BACKWARD
        )
        self._advance(kind, self._backward, names)
        if not self._scalers and _autocast_on():
            self._report("backward-inside-autocast", self._backward.site)

    def _on_zero(self, event: Event) -> None:
        self._cleared.update(map(id, event.tensors))
        self._advance(EventKind.ZERO_GRAD, event, self._owners(event.tensors))

    def _on_unscale(self, event: Event) -> None:
        self._meet(event)
        self._advance(
            EventKind.UNSCALE, event, [self._optimizer(event.optimizer).name]
        )

    def _on_read(self, event: Event) -> None:
        kind: EventKind = (
            EventKind.CLIP if event.detail in _CLIPPERS else EventKind.READ
        )
        owners = self._owners(event.tensors)
        if owners:
            self._advance(kind, event, owners)

    def _on_step(self, event: Event) -> None:
        known = self._optimizer(event.optimizer)
        self.steps_inside += _autocast_on()
        if event.scaler is not None:
            self._meet(event)
            if (
                self._simulated
                and _collapsed(event.scaler)
                and self._scalers[id(event.scaler)].state.updates
            ):
                self._report("loss-scale-collapse", event.site)
            self._advance(EventKind.SCALER_STEP, event, [known.name])
            return
        self._advance(EventKind.BARE_STEP, event, [known.name])
        if not self._scalers and self._float16_forward:
            self._report("fp16-without-scaler", event.site)

    def _on_stepped(self, event: Event) -> None:
        self._float16_forward = False

    def _on_update(self, event: Event) -> None:
        self._advance(EventKind.UPDATE, event)

    def _meet(self, event: Event) -> None:
        """An optimizer meets a scaler: it should be the one of before, and alone with its
        parameters.
        """
        known = self._optimizer(event.optimizer)
        mine = self._scalers.setdefault(
            id(event.scaler), _Scaler(event.scaler, event.site)
        )
        if known.scaler is not None and known.scaler is not event.scaler:
            before = self._scalers[id(known.scaler)].state
            self._report(
                "scaler-created-per-epoch"
                if before.updates > 1
                else "scaler-in-loop",
                mine.made,
            )
        known.scaler = event.scaler
        own = set(map(id, known.parameters))
        for other in self._all():
            in_cycle = (
                mine.state.of(other.name).stage != "ready"
                and mine.state.of(known.name).stage == "ready"
            )
            shared = own.intersection(map(id, other.parameters))
            if other is not known and in_cycle and shared - self._cleared:
                self._report("param-in-two-optimizers", event.site)
        self._cleared -= own


def _collapsed(scaler: Any) -> bool:
    """Below 1; not asked of a real GPU, where the answer would make every step wait (the scales are
    in the trace).
    """
    scale = scaler._scale
    return scale is not None and bool(scale < 1)


def _sample(optimizer: Any) -> list[Any]:
    """Enough of the parameters to see whose gradients a backward made; all of them would cost time
    at every step.
    """
    parameters = [
        parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    return parameters[:: max(len(parameters) // _SAMPLE, 1)]


def _mark(parameter: Any) -> tuple[int, int] | None:
    gradient = parameter.grad
    if gradient is None:
        return None
    return (
        id(gradient) if gradient.is_sparse else gradient.data_ptr(),
        gradient._version,
    )


def _is_zero(parameters: list[Any]) -> bool:
    """Cleared by other means than zero_grad."""
    return all(
        p.grad is None or not bool(p.grad.any())
        for p in parameters
        if not (p.grad is not None and p.grad.is_sparse)
    )


def _autocast_on() -> bool:
    return bool(
        torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")
    )
