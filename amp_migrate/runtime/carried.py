"""`--program-device cuda`: a program without device code, as it runs where the default device is a
GPU.

What it makes is on the GPU, by the old names of types too (`torch.FloatTensor`, `torch.Tensor`),
what it takes from NumPy goes there, and what it hands to NumPy comes back. A worker cannot make
what is on the GPU, so the program loads its data by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

_OF_WORKERS = (
    "num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout",
)  # fmt: skip


def carry() -> None:
    """Make "cuda" the default device of this process, NumPy's arrays included, for good."""
    torch.set_default_device("cuda")
    whole: Any = torch
    whole.from_numpy = _to_device(torch.from_numpy)
    for name in [name for name in vars(torch.cuda) if name.endswith("Tensor")]:
        setattr(whole, name, getattr(torch.cuda, name))
    kind: Any = torch.Tensor
    kind.__new__ = _made_there(kind.__new__)
    kind.numpy, kind.__array__ = (
        _from_device(kind.numpy),
        _from_device(kind.__array__),
    )
    loader: Any = torch.utils.data.DataLoader
    loader.__init__ = _without_workers(loader.__init__)


def _without_workers(init: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(init)

    def here(*arguments: Any, **keywords: Any) -> None:
        given = signature.bind(*arguments, **keywords)
        for name in _OF_WORKERS:
            given.arguments.pop(name, None)
        init(*given.args, **given.kwargs)

    return here


def _made_there(new: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.Tensor(...)`, which knows nothing of a default device; classes derived from it are
    made elsewhere.
    """

    def made(kind: Any, *arguments: Any, **keywords: Any) -> Any:
        if kind is not torch.Tensor or keywords:
            return new(kind, *arguments, **keywords)
        low = [
            one.cpu() if isinstance(one, torch.Tensor) else one
            for one in arguments
        ]
        return new(kind, *low).to("cuda")

    return made


def _to_device(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **keywords: function(*arguments, **keywords).to(
        "cuda"
    )


def _from_device(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tensor, *arguments, **keywords: function(
        tensor.cpu(), *arguments, **keywords
    )
