"""`--device cpu`: a program that asks for "cuda" is carried to the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_DEVICE_FREE = (
    "synchronize",
    "set_device",
    "empty_cache",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "init",
)
_ZERO = ("current_device", "max_memory_allocated", "memory_allocated", "max_memory_reserved", "memory_reserved")


def on_cpu(value: Any) -> Any:
    """`value`, with the CPU in the place of a CUDA device: a `torch.device` or a string such as `cuda:0`."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value


class _CudaOnCpu(TorchFunctionMode):
    """Replaces CUDA devices among the arguments of every function of torch."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CUDA_METHODS:
            return args[0]
        keywords = {name: on_cpu(value) for name, value in (kwargs or {}).items()}
        if isinstance(keywords.get("device"), int) and not isinstance(keywords["device"], bool):
            keywords["device"] = "cpu"  # an index is a GPU's
        if func is torch.Tensor.to and len(args) > 1 and isinstance(args[1], int):
            args = (args[0], "cpu", *args[2:])
        return func(*map(on_cpu, args), **keywords)


_CUDA_METHODS = {torch.Tensor.cuda}


def carry_to_cpu() -> None:
    """Install the mapping in this process, for good."""
    _CudaOnCpu().__enter__()
    torch.Tensor.pin_memory = _same  # type: ignore[method-assign, assignment]
    module: Any = torch.nn.Module
    module.cuda = _same
    module.to = _to_cpu(module.to)
    torch.load = _load(torch.load)
    for name in _DEVICE_FREE:
        setattr(torch.cuda, name, lambda *_, **__: None)
    for name in _ZERO:
        setattr(torch.cuda, name, lambda *_, **__: 0)
    _carry_parallel()


def _same(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _to_cpu(to: Callable[..., Any]) -> Callable[..., Any]:
    def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
        places = [
            "cpu" if isinstance(value, int) and not isinstance(value, bool) else on_cpu(value) for value in args[:1]
        ]
        return to(self, *places, *args[1:], **{name: on_cpu(value) for name, value in kwargs.items()})

    return moved


def _load(load: Callable[..., Any]) -> Callable[..., Any]:
    def loaded(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(file, "cpu" if map_location is None else on_cpu(map_location), *args, **kwargs)

    return loaded


def _carry_parallel() -> None:
    """DistributedDataParallel takes no device ids on the CPU, and gloo stands in for nccl."""
    parallel: Any = torch.nn.parallel.DistributedDataParallel
    make = parallel.__init__

    def made(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, **kwargs: Any) -> None:
        make(self, module, **kwargs)

    parallel.__init__ = made
    if not torch.distributed.is_available():
        return
    start = torch.distributed.init_process_group

    def started(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("device_id", None)
        start("gloo" if backend in (None, "nccl") else backend, *args, **kwargs)

    torch.distributed.init_process_group = started
