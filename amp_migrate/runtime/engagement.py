"""What really ran in half precision: operators of the loss's graph, and modules.

That a region was entered says little: the model may be on another device than the region's, or run
in threads that know nothing of it. So the graph of each of the first losses is walked, and its
operators are asked in which precision their results are. The graph holds what the backward goes
through, on whatever device and thread it was computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook

from amp_migrate.runtime.events import Event
from amp_migrate.runtime.naming import module_names

_BACKWARDS = 3
_NODES = 50_000
_HALVES = (torch.float16, torch.bfloat16)


class Engagement:
    """Counts operators and modules in half until a few backwards are done."""

    def __init__(self) -> None:
        self.half = 0
        self.operators = 0
        self.modules: dict[str, bool] = {}
        """By name, whether a module without children returned half."""
        self.devices: set[str] = set()
        self._seen: list[tuple[Any, bool]] = []
        self._parameters: list[Any] = []
        self._backwards = self._later = 0
        self._has_entered = False
        """Whether a region came since the last backward that was looked at."""
        self._hook = register_module_forward_hook(self._after_forward)

    def _on_optimizer(self, event: Event) -> None:
        self._parameters += [
            p for group in event.optimizer.param_groups for p in group["params"]
        ]

    def _on_backward(self, event: Event) -> None:
        if not self._is_looked_at():
            return
        for node in _graph(event.roots):
            self.operators += 1
            self.half += _is_half(node)
        self.devices.update(p.device.type for p in self._parameters)
        self._name()
        if self._backwards == _BACKWARDS:
            self._hook.remove()

    def _on_region(self, event: Event) -> None:
        self._has_entered = True

    def _is_looked_at(self) -> bool:
        """The first backwards; where nothing in them ran in half, some of the later ones that a
        region came before as well: another loop may be the one with AMP.
        """
        self._backwards += 1
        if self._backwards <= _BACKWARDS:
            return True
        if self.half or not self._has_entered:
            return False
        self.operators, self._has_entered = 0, False
        self._later += 1
        return self._later <= _BACKWARDS or self._later.bit_count() == 1

    def on(self, event: Event) -> None:
        """Look at the first backwards."""
        if event.kind == "optimizer":
            self._on_optimizer(event)
        elif event.kind == "backward":
            self._on_backward(event)
        elif event.kind == "region":
            self._on_region(event)

    def _name(self) -> None:
        names = module_names(self._parameters)
        for module, half in self._seen:
            name = names.get(id(module), type(module).__name__)
            self.modules[name] = self.modules.get(name, False) or half
        self._seen.clear()

    def _after_forward(self, module: Any, inputs: Any, output: Any) -> None:
        if (
            len(self._seen) < _NODES
            and not module._modules
            and isinstance(output, torch.Tensor)
        ):
            self._seen.append((module, output.dtype in _HALVES))


def _graph(roots: Iterable[Any]) -> Iterator[Any]:
    """Nodes of the graph that are results of operators, each once."""
    waiting: list[Any] = [root for root in roots if root is not None]
    seen: set[Any] = set()
    while waiting and len(seen) < _NODES:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting.extend(
            following
            for following, _ in node.next_functions
            if following is not None
        )
        if not hasattr(node, "variable"):  # the end of the graph at a parameter
            yield node


def _is_half(node: Any) -> bool:
    """Casts are no operators of the program's."""
    if "ToCopy" in type(node).__name__:
        return False
    metadata = getattr(node, "_input_metadata", None)
    known = _saved(node) if metadata is None else metadata
    return any(one.dtype in _HALVES for one in known)


def _saved(node: Any) -> Iterator[torch.Tensor]:
    """The tensors that a node keeps for its backward, for torch before 2.5, where it does not say
    what its results are.
    """
    for name in dir(node):
        if name.startswith("_saved_"):
            with contextlib.suppress(RuntimeError):  # freed
                value = getattr(node, name)
                yield from [value] if isinstance(value, torch.Tensor) else ()
