"""Which module went wrong, watched from inside the child: the first inf or NaN, and every module's
first output.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook

from amp_migrate.runtime.callers import places
from amp_migrate.runtime.epsilon import epsilons
from amp_migrate.runtime.events import Event
from amp_migrate.runtime.naming import module_names
from amp_migrate.runtime.trace import Place

_MODULES = 2000
_VALUES = 100_000


class Diagnosis:
    """Looks at what every module returns, and at the gradients that come back to it. Slow."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.places: dict[str, list[Place]] = {}
        """By module, where the user's files call or define it."""
        self._outputs: list[tuple[Any, torch.Tensor]] = []
        self._called: dict[int, tuple[Any, list[Place]]] = {}
        self._named: list[tuple[str, torch.Tensor]] = []
        self._optimizers: list[Any] = []
        self._steps = 0
        self._first_pass = True
        self._scale = 1.0
        # torch 2.4 hands over no keyword arguments.
        keywords = signature(register_module_forward_hook).parameters
        known = {"with_kwargs": True} if "with_kwargs" in keywords else {}
        register_module_forward_hook(self._after_forward, **known)

    def on(self, event: Event) -> None:
        """Know the scale and the step; name the modules while they are alive."""
        if event.kind == "optimizer":
            self._optimizers.append(event.optimizer)
        elif event.kind == "backward":
            self._scale = event.scaler.get_scale() if event.scaled else 1.0
            if self._first_pass:
                self._first_pass = False
                names = self._names()
                self._named = [
                    (names.get(id(m), type(m).__name__), value)
                    for m, value in self._outputs
                ]
                self._outputs = []
                self.places = {
                    names.get(id(m), type(m).__name__): found
                    for m, found in self._called.values()
                    if found
                }
                self._called = {}
        elif event.kind == "stepped":
            self._steps += 1

    def _names(self) -> dict[int, str]:
        return module_names(
            p
            for optimizer in self._optimizers
            for group in optimizer.param_groups
            for p in group["params"]
        )

    def _after_forward(self, module: Any, inputs: Any, *rest: Any) -> None:
        *named, output = rest
        if (
            self._first_pass
            and id(module) not in self._called
            and len(self._called) < _MODULES
        ):
            self._called[id(module)] = (
                module,
                places(module, inputs, *named),
            )
        for tensor in _floating(output):
            if self._first_pass and len(self._outputs) < _MODULES:
                self._outputs.append(
                    (
                        module,
                        tensor.detach()
                        .flatten()[:_VALUES]
                        .to("cpu", torch.float64),
                    )
                )
            if "forward" not in self.found and not bool(
                torch.isfinite(tensor.detach()).all()
            ):
                self.found["forward"] = self._about(module, tensor, inputs)
            if tensor.requires_grad:
                tensor.register_hook(
                    lambda gradient, owner=module: self._after_backward(
                        owner, gradient
                    )
                )

    def _after_backward(self, module: Any, gradient: torch.Tensor) -> None:
        """Overflow at a high scale is how the scaler finds its scale; so the lowest scale with one
        is kept.
        """
        known = self.found.get("backward")
        if (known is None or self._scale < known["scale"]) and not bool(
            torch.isfinite(gradient).all()
        ):
            self.found["backward"] = {
                **self._about(module, gradient, ()),
                "scale": self._scale,
            }

    def _about(
        self, module: Any, tensor: torch.Tensor, inputs: Any
    ) -> dict[str, Any]:
        largest = max(
            (
                value.detach().abs().max().item()
                for value in _floating(inputs)
                if value.numel()
            ),
            default=None,
        )
        vanishing = epsilons(module) if tensor.dtype is torch.float16 else []
        return {
            **(
                {"eps": vanishing[0].value, "eps_at": vanishing[0].where}
                if vanishing
                else {}
            ),
            "module": self._names().get(id(module), type(module).__name__),
            "type": type(module).__name__,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "step": self._steps + 1,
            "largest_input": largest,
        }

    def save(self, folder: Path) -> None:
        """The first outputs, to be held against the float64 reference's."""
        torch.save(
            {
                "names": [name for name, _ in self._named],
                "values": [v for _, v in self._named],
            },
            folder / "outputs.pt",
        )


def _floating(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _floating(item)
    elif isinstance(value, dict):
        yield from _floating(list(value.values()))
