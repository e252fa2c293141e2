"""Kernels for the dispatch key of CUDA: each runs the CPU's on the same memory.

The dispatcher is the level at which a GPU differs from a CPU. So autocast's own lists, its weight
cache, composite functions, autograd's device thread and the choice among overloads are torch's own
here, not a copy of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from amp_migrate.runtime.simulated_gpu import half, recurrent
from amp_migrate.runtime.simulated_gpu.memory import on_device, on_host
from amp_migrate.runtime.simulated_gpu.storage import set_storage

_libraries: list[torch.library.Library] = []
_CPU = torch.device("cpu")
_AUTOCAST_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_TAKE_CPU_OPERANDS = frozenset(
    """
    index index_put index_put_ _index_put_impl_ _pack_padded_sequence _ctc_loss _ctc_loss_backward
    _use_cudnn_ctc_loss
    tensor_split set_ copy_ _copy_from _local_scalar_dense _cudnn_ctc_loss
    """.split()
)
"""Operators that accept CPU tensors with dimensions beside CUDA ones, by their CUDA kernels:
indices, lengths, and what copies."""
_WHOLE = frozenset(["convolution", "convolution_backward"])
"""Composites that would fall apart into kernels of the build; the CPU has them as one."""
Watch = Callable[[Any, torch.dtype], None]
_watch: list[Watch] = []


def watch(told: Watch) -> None:
    """Have `told` called with every operator that runs on half operands, and with their dtype."""
    _watch.append(told)


def install() -> None:
    """Register the kernels in this process, for good."""
    library = torch.library.Library("aten", "IMPL")
    rest = torch.library.Library("_", "IMPL")
    _libraries.extend(
        (library, rest)
    )  # their destruction would take the kernels with them
    special = _special()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Before torch 2.6, an operator of another library raises: it has no kernel for CUDA.
        for key in ("CUDA", "SparseCUDA") if hasattr(rest, "fallback") else ():
            rest.fallback(_fallback, key)
        whole = {
            name: _operator(name).decompose for name in _composites()
        } | recurrent.CELLS
        for name, kernel in whole.items():
            for key in ("AutogradCUDA", "CUDA"):
                library.impl(name, kernel, key)
        # Before torch 2.6, a kernel cannot be registered twice.
        for name in {*_operators(), *special} - whole.keys():
            library.impl(
                name, special.get(name) or _kernel(_operator(name)), "CUDA"
            )
    _collectives()


def _operators() -> list[str]:
    """Those of ATen that are not taken apart by torch before a backend sees them, but for views."""
    found = []
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        if namespace == "aten" and _needs_kernel(full, name):
            found.append(name)
    return found


def _needs_kernel(full: str, name: str) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if has(full, "CompositeImplicitAutograd") and not has(full, "CPU"):
        return False
    if torch.Tag.inplace_view in _operator(name).tags and not has(full, "CPU"):
        return False  # it changes the shape of a tensor, wherever its memory is
    if has(full, "CUDA"):
        return True  # a build with CUDA has kernels for the real device, which must not run
    if name.partition(".")[0] in _WHOLE or has(full, "CPU"):
        return True
    if has(full, "CompositeExplicitAutogradNonFunctional"):
        return True
    return has(full, "CompositeExplicitAutograd") and not _is_view(
        _operator(name)
    )


def _composites() -> list[str]:
    """Those of ATen that only a build with CUDA does not take apart, on this device."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    found = []
    for full in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
        namespace, _, name = full.partition("::")
        composite = has(full, "CompositeImplicitAutograd") and not has(
            full, "CPU"
        )
        if namespace == "aten" and composite:
            found.append(name)
    return found


def _is_view(operator: Any) -> bool:
    returns = operator._schema.returns
    return any(
        one.alias_info is not None and not one.alias_info.is_write
        for one in returns
    )


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


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


def _fallback(operator: Any, *arguments: Any, **keywords: Any) -> Any:
    return _kernel(operator)(*arguments, **keywords)


def _kernel(operator: Any) -> Callable[..., Any]:
    name, wide = (
        operator._schema.name.partition("::")[2],
        half.is_widened(operator),
    )
    arguments_of = operator._schema.arguments
    writes = [
        place
        for place, one in enumerate(arguments_of)
        if one.alias_info is not None
        and one.alias_info.is_write
        and not one.kwarg_only
    ]
    outs = [one.name for one in arguments_of if one.is_out]

    def kernel(*arguments: Any, **keywords: Any) -> Any:
        with (
            torch._C.DisableTorchFunction(),
            torch._C._ExcludeDispatchKeyGuard(_AUTOCAST_CPU),
        ):
            call = _Call()
            low = [call.down(value) for value in arguments]
            named = {key: call.down(value) for key, value in keywords.items()}
            if call.cpu:
                _check_devices(
                    name,
                    call,
                    [arguments[i] for i in writes if i < len(arguments)],
                )
            for out in outs:
                named[out] = _resizable(named[out])
            dtype = half.half_of([low, named])
            if dtype is None and wide and keywords.get("dtype") in half.HALVES:
                dtype = keywords["dtype"]
            if dtype is None:
                result = operator(*low, **named)
            else:
                for told in _watch:
                    told(operator, dtype)
                result = half.call(operator, low, named, dtype, wide)
            if outs:
                return _written(
                    result,
                    [keywords[out] for out in outs],
                    [named[o] for o in outs],
                )
            return call.up(result)

    return kernel


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


def _special() -> dict[str, Callable[..., Any]]:
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
    plain = _kernel(operator)

    def kernel(value: torch.Tensor, dim: int, half_to_float: bool) -> Any:
        return plain(value.float() if half_to_float else value, dim, False)

    return kernel


def _back_to_half(operator: Any) -> Callable[..., Any]:
    plain = _kernel(operator)

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
        torch._C._ExcludeDispatchKeyGuard(_AUTOCAST_CPU),
    ):
        kept, mask = native_dropout(on_host(value), p, train)
        return on_device(kept), on_device(mask)


def _collectives() -> None:
    """Collective operations go to the CPU's process group."""
    if not torch.distributed.is_available():
        return
    library = torch.library.Library("c10d", "IMPL")
    _libraries.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for full in torch._C._dispatch_get_registrations_for_dispatch_key(
            "CUDA"
        ):
            namespace, _, name = full.partition("::")
            if namespace == "c10d":
                packet, _, overload = name.partition(".")
                operator = getattr(
                    getattr(torch.ops.c10d, packet), overload or "default"
                )
                library.impl(name, _kernel(operator), "CUDA")
