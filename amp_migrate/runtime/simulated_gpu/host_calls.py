"""One operator on the simulated device: its operands go to the CPU, and its results come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from amp_migrate.runtime.simulated_gpu import half
from amp_migrate.runtime.simulated_gpu.memory import on_device, on_host

_CPU = torch.device("cpu")
AUTOCAST_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_TAKE_CPU_OPERANDS = frozenset(
    """
    index index_put index_put_ _index_put_impl_ _pack_padded_sequence _ctc_loss _ctc_loss_backward
    _use_cudnn_ctc_loss
    tensor_split set_ copy_ _copy_from _local_scalar_dense _cudnn_ctc_loss
    """.split()
)
"""Operators that accept CPU tensors with dimensions beside CUDA ones, by their CUDA kernels:
indices, lengths, and what copies."""


class _Call:
    """One call on its way to the CPU and back."""

    __slots__ = ("_hosts", "cpu", "cuda")

    def __init__(self) -> None:
        self._hosts: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.cpu: list[torch.Tensor] = []
        self.cuda = False

    def down(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor_down(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.down, value))
        if isinstance(value, torch.device) and value.type == "cuda":
            self.cuda = True
            return _CPU
        return value

    def _tensor_down(self, value: torch.Tensor) -> torch.Tensor:
        if not value.is_cuda:
            self.cpu.append(value)
            return value
        self.cuda = True
        host = on_host(value)
        self._hosts.append((host, value))
        return host

    def up(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            for host, device in self._hosts:
                if host is value:
                    return device
            return on_device(value) if value.device.type == "cpu" else value
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.up, value))
        return value


def _check_devices(name: str, call: _Call, written: list[Any]) -> None:
    """Raise as a GPU does where operands are on two devices; a CPU scalar is taken."""
    if name in _TAKE_CPU_OPERANDS or not call.cuda:
        return
    for value in call.cpu:
        if value.layout is torch.strided and (
            value.dim() or any(value is one for one in written)
        ):
            message = (
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"cuda:0 and cpu! (when checking the arguments of {name})"
            )
            raise RuntimeError(message)


def kernel_of(operator: Any) -> Callable[..., Any]:
    """A kernel for this device that computes what the CPU's does."""
    name = operator._schema.name.partition("::")[2]
    writes, outs = _written_places(operator), _out_names(operator)
    compute = _computing(operator)

    def kernel(*arguments: Any, **keywords: Any) -> Any:
        with (
            torch._C.DisableTorchFunction(),
            torch._C._ExcludeDispatchKeyGuard(AUTOCAST_CPU),
        ):
            call = _Call()
            low = [call.down(value) for value in arguments]
            named = {key: call.down(value) for key, value in keywords.items()}
            if call.cpu:
                changed = [arguments[i] for i in writes if i < len(arguments)]
                _check_devices(name, call, changed)
            for out in outs:
                named[out] = _resizable(named[out])
            result = compute(low, named)
            if not outs:
                return call.up(result)
            places = [keywords[out] for out in outs]
            return _written(result, places, [named[out] for out in outs])

    return kernel


def _written_places(operator: Any) -> list[int]:
    """The positional arguments that the operator changes in place."""
    return [
        place
        for place, one in enumerate(operator._schema.arguments)
        if one.alias_info is not None
        and one.alias_info.is_write
        and not one.kwarg_only
    ]


def _out_names(operator: Any) -> list[str]:
    return [one.name for one in operator._schema.arguments if one.is_out]


def _computing(
    operator: Any,
) -> Callable[[list[Any], dict[str, Any]], Any]:
    """The operator on operands of the CPU, in half as a GPU computes it."""
    wide = half.is_widened(operator)

    def compute(low: list[Any], named: dict[str, Any]) -> Any:
        dtype = half.half_of([low, named])
        if dtype is None and wide and named.get("dtype") in half.HALVES:
            dtype = named["dtype"]
        if dtype is None:
            return operator(*low, **named)
        return half.call(operator, low, named, dtype, wide)

    return compute


def _resizable(value: Any) -> Any:
    """A result to be written goes to memory of its own: what is lent cannot grow."""
    if isinstance(value, torch.Tensor):
        return (
            torch.empty_like(value)
            if value.numel()
            else torch.empty(0, dtype=value.dtype)
        )
    return (
        [torch.empty_like(one) for one in value]
        if isinstance(value, (list, tuple))
        else value
    )


def _written(result: Any, outs: list[Any], values: list[Any]) -> Any:
    for out, value in zip(outs, values, strict=True):
        pairs = (
            [(out, value)]
            if isinstance(out, torch.Tensor)
            else zip(out, value, strict=True)
        )
        for place, new in pairs:
            if place.shape == new.shape:
                on_host(place).copy_(new)
            else:
                place.data = on_device(new)
    return outs[0] if len(outs) == 1 else tuple(outs)
