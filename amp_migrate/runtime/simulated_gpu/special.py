"""Operators with kernels of their own on the simulated device: what copies or changes memory, and
what a GPU does in its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from amp_migrate.runtime.simulated_gpu.host_calls import AUTOCAST_CPU, kernel_of
from amp_migrate.runtime.simulated_gpu.memory import on_device, on_host
from amp_migrate.runtime.simulated_gpu.storage import set_storage


def special_kernels() -> dict[str, Callable[..., Any]]:
    """Name of the operator -> its kernel."""
    return {
        "copy_": _copy_,
        "_to_copy": _to_copy,
        "resize_": _resize_,
        "set_.source_Tensor": _set_,
        "set_.source_Storage": _set_storage,
        "set_.source_Storage_storage_offset": _set_storage,
        "_fused_sdp_choice": lambda *_, **__: 0,  # by parts
        "is_pinned": lambda *_, **__: False,
        "_pin_memory": lambda value, *_, **__: value,
        "native_dropout": _native_dropout,
        "record_stream": lambda *_, **__: None,
        "_use_cudnn_ctc_loss": lambda *_, **__: False,
        "_use_cudnn_ctc_loss.Tensor": lambda *_, **__: False,
        "_use_miopen_ctc_loss": lambda *_, **__: False,
        "_use_miopen_ctc_loss.Tensor": lambda *_, **__: False,
        "as_strided": _as_strided,
        "_pack_padded_sequence": _pack_padded_sequence,
        "_softmax": _to_float(torch.ops.aten._softmax.default),
        "_log_softmax": _to_float(torch.ops.aten._log_softmax.default),
        "_softmax_backward_data": _back_to_half(
            torch.ops.aten._softmax_backward_data.default
        ),
        "_log_softmax_backward_data": _back_to_half(
            torch.ops.aten._log_softmax_backward_data.default
        ),
    }


def _to_float(operator: Any) -> Callable[..., Any]:
    """A GPU can read half and write float32 in one kernel."""
    plain = kernel_of(operator)

    def kernel(value: torch.Tensor, dim: int, half_to_float: bool) -> Any:
        return plain(value.float() if half_to_float else value, dim, False)

    return kernel


def _back_to_half(operator: Any) -> Callable[..., Any]:
    plain = kernel_of(operator)

    def kernel(gradient: Any, output: Any, dim: int, dtype: torch.dtype) -> Any:
        return plain(gradient, output, dim, gradient.dtype).to(dtype)

    return kernel


def _pack_padded_sequence(
    value: torch.Tensor, *others: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sizes of batches stay on the CPU."""
    with torch._C.DisableTorchFunction():
        packed, sizes = torch.ops.aten._pack_padded_sequence(
            on_host(value), *others
        )
    return on_device(packed), sizes


def _host(value: torch.Tensor) -> torch.Tensor:
    return on_host(value) if value.is_cuda else value


def _copy_(
    target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False
) -> torch.Tensor:
    with torch._C.DisableTorchFunction():
        _host(target).copy_(_host(source))
    return target


def _to_copy(value: torch.Tensor, **keywords: Any) -> torch.Tensor:
    device = keywords.get("device") or value.device
    told = {
        name: keywords[name]
        for name in ("dtype", "layout", "memory_format")
        if name in keywords
    }
    with torch._C.DisableTorchFunction():
        copied = torch.ops.aten._to_copy(_host(value), **told)
    return on_device(copied) if device.type == "cuda" else copied


def _resize_(value: torch.Tensor, size: Any, **_: Any) -> torch.Tensor:
    with torch._C.DisableTorchFunction():
        old = on_host(value)
        new = torch.empty(size, dtype=value.dtype)
        count = min(old.numel(), new.numel())
        new.view(-1)[:count].copy_(old.reshape(-1)[:count])
        value.data = on_device(new)
    return value


def _set_(value: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    value.data = source
    return value


def _set_storage(value: torch.Tensor, *storage: Any) -> torch.Tensor:
    with torch._C.DisableTorchFunction():
        return set_storage(value, *storage)


def _as_strided(
    value: torch.Tensor, size: Any, stride: Any, offset: Any = None
) -> torch.Tensor:
    """It may reach beyond the view that it is asked of."""
    if offset is None:
        offset = value.storage_offset()
    with torch._C.DisableTorchFunction():
        return set_storage(
            value.detach(), value.untyped_storage(), offset, size, stride
        )


def _native_dropout(
    value: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mask is drawn in float32, whatever the values are."""
    from amp_migrate.runtime.masks import native_dropout

    with (
        torch._C.DisableTorchFunction(),
        torch._C._ExcludeDispatchKeyGuard(AUTOCAST_CPU),
    ):
        kept, mask = native_dropout(on_host(value), p, train)
        return on_device(kept), on_device(mask)
