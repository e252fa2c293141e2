"""CUDA's autocast on CPU tensors, after the lists in torch 2.13's `autocast_mode.h`.

Written apart from `amp_migrate.runtime.simulated_gpu` and from `torch_facts`, so that a mistake there
is not made here as well.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

LOWER = set(
    "_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
    "convolution prelu addmm addmv addr matmul einsum mm mv linear addbmm baddbmm bmm chain_matmul "
    "linalg_vecdot linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell "
    "scaled_dot_product_attention".split()
)
PROMOTE = set(
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot "
    "scatter_add".split()
)
OWN_DTYPE_WINS = set(
    "prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum".split()
)
BANNED = {"binary_cross_entropy"}
RECURRENT = ("lstm.input", "lstm.data", "gru.input", "gru.data", "rnn_tanh.input", "rnn_relu.input")
"""cuDNN takes these whole on a GPU, with its operands in half."""
WITHOUT_HALF = set(
    "linalg_inv_ex linalg_det _linalg_det linalg_slogdet _linalg_slogdet linalg_svd _linalg_svd "
    "_linalg_eigh linalg_eigh linalg_qr _linalg_solve_ex linalg_cholesky_ex linalg_lstsq "
    "linalg_lu_factor_ex linalg_matrix_exp _fft_r2c _fft_c2c _fft_c2r cholesky_inverse "
    "triangular_solve linalg_solve_triangular histc quantile".split()
)
"""Operators without a float16 kernel on CUDA, where the CPU may have one."""

COMPUTED: Counter[str] = Counter()
"""How often an operator of the half list ran under autocast."""
_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_CACHE: dict[tuple[int, torch.dtype, bool], tuple[torch.Tensor, torch.Tensor]] = {}
_LIBRARIES: list[torch.library.Library] = []

Kernel = Callable[..., Any]


def install() -> None:
    """Replace the kernels of CPU autocast by CUDA's rules; once per process."""
    library = torch.library.Library("aten", "IMPL")
    _LIBRARIES.append(library)
    cuda, cpu = _registered("AutocastCUDA"), _registered("AutocastCPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted({*cuda, *RECURRENT}):
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
            library.impl(name, _kernel(packet, operator), "AutocastCPU")
        for name in sorted(cpu - cuda - {*RECURRENT}):
            library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")
    leave = torch.clear_autocast_cache

    def cleared() -> None:
        leave()
        _CACHE.clear()

    torch.clear_autocast_cache = cleared


def _registered(key: str) -> set[str]:
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name.removeprefix("aten::") for name in names if name.startswith("aten::")}


def _kernel(packet: str, operator: Any) -> Kernel:
    if packet in BANNED:
        return _banned
    if packet in LOWER or packet.split("_input", maxsplit=1)[0] in (
        "lstm",
        "gru",
        "rnn_tanh",
        "rnn_relu",
    ):
        return _lower(packet, operator)
    if packet in PROMOTE:
        return _promoted(operator)
    names = [argument.name for argument in operator._schema.arguments]
    place = names.index("dtype") if packet in OWN_DTYPE_WINS and "dtype" in names else None
    return _wide(operator, place)


def _banned(*arguments: Any, **keywords: Any) -> Any:
    raise RuntimeError("binary_cross_entropy and BCELoss are unsafe to autocast")


def _lower(packet: str, operator: Any) -> Kernel:
    def kernel(*arguments: Any, **keywords: Any) -> Any:
        dtype = torch.get_autocast_dtype("cpu")
        COMPUTED[packet] += 1
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            rounded = [_each(value, lambda t: _cast(t, dtype).float()) for value in arguments]
            named = {
                key: _each(value, lambda t: _cast(t, dtype).float())
                for key, value in keywords.items()
            }
            return _each(operator(*rounded, **named), lambda t: t.to(dtype))

    return kernel


def _wide(operator: Any, dtype_at: int | None) -> Kernel:
    def kernel(*arguments: Any, **keywords: Any) -> Any:
        asked = dtype_at is not None and (
            (len(arguments) > dtype_at and arguments[dtype_at]) or keywords.get("dtype")
        )
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            if asked:
                return operator(*arguments, **keywords)
            wide = [_each(value, lambda t: _cast(t, torch.float32)) for value in arguments]
            named = {k: _each(v, lambda t: _cast(t, torch.float32)) for k, v in keywords.items()}
            return operator(*wide, **named)

    return kernel


def _promoted(operator: Any) -> Kernel:
    def kernel(*arguments: Any, **keywords: Any) -> Any:
        found = {t.dtype for t in _tensors([*arguments, *keywords.values()])}
        target = torch.float32 if torch.float32 in found else torch.get_autocast_dtype("cpu")
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            same = [_each(value, lambda t: _cast(t, target)) for value in arguments]
            named = {key: _each(v, lambda t: _cast(t, target)) for key, v in keywords.items()}
            return operator(*same, **named)

    return kernel


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A floating tensor that is no double in `dtype`; a weight once per outermost region, as
    CUDA's cache keeps it: later changes of the weight are not seen.
    """
    if not tensor.is_floating_point() or tensor.dtype in (torch.float64, dtype):
        return tensor
    if not _is_weight(tensor) or dtype is torch.float32:
        return tensor.to(dtype)
    key = (id(tensor), dtype, torch.is_grad_enabled())
    if key not in _CACHE:
        _CACHE[key] = (tensor, tensor.to(dtype))
    return _CACHE[key][1]


def _is_weight(tensor: torch.Tensor) -> bool:
    plain = tensor.dtype is torch.float32 and tensor.requires_grad and tensor.is_leaf
    return plain and not tensor._is_view() and torch.is_autocast_cache_enabled()


def _each(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value) if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)([_each(item, change) for item in value])
    return value


def _tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(_tensors(value))
    return found
