"""The float64 reference: the program as it is, its random numbers and its parameters, but computed
in double precision.

Every function of torch that computes is given its float32 operands in float64. Parameters stay
float32, so the reference starts from the same values and draws the same random numbers; only the
rounding in between is gone. Views, in-place functions and explicit conversions keep their dtype: a
buffer that is written in place must stay the same buffer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from amp_migrate.runtime.events import Event
from amp_migrate.torch_facts.methods import AS_THEY_ARE

_DROPOUT = frozenset(("dropout", "dropout1d", "dropout2d", "dropout3d"))
_RANDOM = frozenset(
    ("multinomial", "bernoulli", "normal", "poisson", "rand_like", "randn_like")
)


class Float64(TorchFunctionMode):
    """While active, everything but the optimizers' own arithmetic is computed in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.in_optimizer = False

    def on(self, event: Event) -> None:
        """Leave the optimizers alone."""
        if event.kind in ("gradients", "stepped"):
            self.in_optimizer = event.kind == "gradients"

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call `func` in double precision where it computes."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if (
            name in AS_THEY_ARE
            or not args
            or self.in_optimizer
            or "out" in kwargs
        ):
            return func(*args, **kwargs)
        if name in _RANDOM:
            return func(*map(_single, args), **kwargs)
        if name in _DROPOUT:
            return _dropout(func, *args, **kwargs)
        if (name.endswith("_") and not name.endswith("__")) or name.startswith(
            ("__i", "__setitem__")
        ):
            return func(
                args[0],
                *(_like(args[0], value) for value in args[1:]),
                **kwargs,
            )
        return func(
            *map(_double, args),
            **{key: _double(value) for key, value in kwargs.items()},
        )


def _dropout(
    func: Any,
    value: torch.Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Any:
    """The mask is drawn in float32, since other numbers would be drawn for float64."""
    with torch.no_grad():
        mask = func(
            torch.ones_like(value, dtype=torch.float32), p, training, False
        )
    return _double(value) * mask


def _double(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (
            value.double()
            if value.dtype is torch.float32 and not value.is_sparse
            else value
        )
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(_double, value))
    return value


def _single(value: Any) -> Any:
    return (
        value.float()
        if isinstance(value, torch.Tensor) and value.dtype is torch.float64
        else value
    )


def _like(target: Any, value: Any) -> Any:
    """An operand of an in-place function, in the dtype of what it writes to."""
    first = (
        target[0] if isinstance(target, (list, tuple)) and target else target
    )
    narrow = isinstance(first, torch.Tensor) and first.dtype is torch.float32
    return _single(value) if narrow else value


def compute_in_float64() -> Float64:
    """Install the reference in this process, for good; its events tell when an optimizer is at
    work.
    """
    mode = Float64()
    mode.__enter__()
    return mode
