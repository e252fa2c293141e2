"""Storages of the simulated GPU: what `torch.save`, `torch.load` and `copy.deepcopy` move."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from amp_migrate.runtime.simulated_gpu.memory import on_device


def install() -> None:
    """Give `torch.UntypedStorage` the ways to and from the simulated GPU, for good."""
    kind: Any = torch.UntypedStorage
    kind.cuda = lambda storage, *_, **__: device_storage(storage)
    clone, cpu, to = kind.clone, kind.cpu, kind.to

    def cloned(storage: Any) -> Any:
        if storage.device.type != "cuda":
            return clone(storage)
        return on_device(host_bytes(storage).clone()).untyped_storage()

    def moved(storage: Any, *, device: Any, non_blocking: bool = False) -> Any:
        if torch.device(device).type == "cuda":
            return device_storage(storage)
        return (
            cpu_storage(storage)
            if storage.device.type == "cuda"
            else to(storage, device=device)
        )

    def cpu_storage(storage: Any) -> Any:
        if storage.device.type != "cuda":
            return cpu(storage)
        return host_bytes(storage).clone().untyped_storage()

    kind.clone, kind.to, kind.cpu = cloned, moved, cpu_storage


def host_bytes(storage: Any) -> torch.Tensor:
    """The memory of a storage of the simulated GPU, as a CPU tensor of bytes that keeps
    it alive.
    """
    size = storage.nbytes()
    if not size:
        return torch.empty(0, dtype=torch.uint8)
    memory = (ctypes.c_char * size).from_address(storage.data_ptr())
    memory._owner = storage
    return torch.frombuffer(memory, dtype=torch.uint8)


def device_storage(storage: Any) -> Any:
    """`storage`, copied to the simulated GPU unless it is there."""
    if storage.device.type == "cuda":
        return storage
    values = torch.empty(0, dtype=torch.uint8).set_(storage)
    return on_device(values.clone()).untyped_storage()


def set_storage(
    value: torch.Tensor,
    storage: Any,
    offset: int = 0,
    size: Any = None,
    stride: Any = (),
) -> torch.Tensor:
    """`aten::set_` with a storage of the simulated GPU."""
    host = torch.empty(0, dtype=value.dtype)
    memory = host_bytes(storage).untyped_storage()
    if size is None:
        size, stride = (storage.nbytes() // host.element_size(),), (1,)
    value.data = on_device(
        host.set_(memory, offset, size, stride or _contiguous(size))
    )
    return value


def _contiguous(size: Any) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for length in reversed(size):
        strides.insert(0, step)
        step *= max(int(length), 1)
    return tuple(strides)
