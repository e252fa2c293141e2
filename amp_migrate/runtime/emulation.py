"""CUDA's autocast on the CPU: the same dtypes, the same overflow, the same errors as on a GPU.

torch's own CPU autocast is no model of CUDA's: `softmax`, `exp`, `sum` and `layer_norm` stay half there, and BCE is
not banned. So the kernels of the `AutocastCPU` dispatch key are replaced by CUDA's rules (see `policies`). The
dispatcher is the level at which CUDA's autocast works too, so composite functions, `nn.LSTM` and attention are seen
as they are on a GPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

from amp_migrate.runtime.policies import BANNED_MESSAGE, RECURRENT, Policy, policy_of

_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_libraries: list[torch.library.Library] = []
_casts: dict[tuple[int, torch.dtype, bool], tuple[torch.Tensor, torch.Tensor]] = {}


def install() -> None:
    """Make `torch.autocast("cuda")` in this process work on CPU tensors by CUDA's rules. Once per process."""
    if _libraries:
        return
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)  # its destruction would take the kernels with it
    cuda, cpu = (_registered(key) for key in ("AutocastCUDA", "AutocastCPU"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(cuda):
            _register(library, name, policy_of(name))
        for name in RECURRENT:
            _register(library, name, "lower")
        for name in sorted(cpu - cuda - set(RECURRENT)):
            library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")
    _patch_autocast()


def _registered(key: str) -> set[str]:
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name.removeprefix("aten::") for name in names if name.startswith("aten::")}


def _register(library: torch.library.Library, name: str, policy: Policy) -> None:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    library.impl(name, _KERNELS[policy](operator), "AutocastCPU")


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """Cast as `cached_cast` does: floating tensors that are not float64; float32 weights once per outermost region."""
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype) for item in value)
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dtype in (torch.float64, dtype):
        return value
    cacheable = value.dtype is torch.float32 and value.requires_grad and value.is_leaf and not value._is_view()
    if not (cacheable and dtype is not torch.float32 and torch.is_autocast_cache_enabled()):
        return value.to(dtype)
    # From torch 2.10 on a cast made under no_grad is not handed to a forward that needs gradients (pytorch 165068).
    key = (id(value), dtype, torch.is_grad_enabled())
    if key not in _casts:
        _casts[key] = (value, value.to(dtype))
    return _casts[key][1]


def _call(operator: Any, arguments: Iterable[Any], keywords: dict[str, Any], dtype: torch.dtype) -> Any:
    positional = [_cast(value, dtype) for value in arguments]
    return operator(*positional, **{name: _cast(value, dtype) for name, value in keywords.items()})


def _lower(operator: Any) -> Callable[..., Any]:
    def kernel(*arguments: Any, **keywords: Any) -> Any:
        dtype = torch.get_autocast_dtype("cpu")
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            if dtype is not torch.float16:
                return _call(operator, arguments, keywords, dtype)
            # As tensor cores do it: half operands, sums in float32, a half result. Half kernels of a CPU take 20 times
            # as long. The gradients are rounded to half on their way back through the same casts.
            wide = [_widened(_cast(value, dtype)) for value in arguments]
            named = {name: _widened(_cast(value, dtype)) for name, value in keywords.items()}
            return _narrowed(operator(*wide, **named))

    return kernel


def _widened(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_widened, value))
    return value.float() if isinstance(value, torch.Tensor) and value.dtype is torch.float16 else value


def _narrowed(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_narrowed, value))
    return value.half() if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value


def _float32(operator: Any) -> Callable[..., Any]:
    def kernel(*arguments: Any, **keywords: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            return _call(operator, arguments, keywords, torch.float32)

    return kernel


def _float32_dtype(operator: Any) -> Callable[..., Any]:
    """Kept apart from `_float32` because the caller's own `dtype=` wins, as in `softmax(x, dim, dtype=torch.half)`."""
    names = [argument.name for argument in operator._schema.arguments]
    place = names.index("dtype")

    def kernel(*arguments: Any, **keywords: Any) -> Any:
        given = arguments[place] if len(arguments) > place else keywords.get("dtype")
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            return operator(*arguments, **keywords) if given else _call(operator, arguments, keywords, torch.float32)

    return kernel


def _promote(operator: Any) -> Callable[..., Any]:
    def kernel(*arguments: Any, **keywords: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            found = [value.dtype for value in _tensors([*arguments, *keywords.values()]) if value.is_floating_point()]
            widest = torch.float32 if torch.float32 in found else torch.get_autocast_dtype("cpu")
            return _call(operator, arguments, keywords, widest)

    return kernel


def _banned(operator: Any) -> Callable[..., Any]:
    def kernel(*arguments: Any, **keywords: Any) -> Any:
        raise RuntimeError(BANNED_MESSAGE)

    return kernel


_KERNELS: dict[Policy, Callable[[Any], Callable[..., Any]]] = {
    "lower": _lower,
    "float32": _float32,
    "float32-dtype": _float32_dtype,
    "promote": _promote,
    "banned": _banned,
}


def _tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(_tensors(value))
    return found


def _patch_autocast() -> None:
    """Let `autocast("cuda")` and `GradScaler("cuda")` stay enabled without a GPU, and drive the CPU's dispatch key."""
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda *_, **__: True
    region, clear = torch.amp.autocast_mode.autocast, torch.clear_autocast_cache
    cast: Any = torch.amp.autocast_mode._cast

    def cast_on_cpu(value: Any, device_type: str, dtype: torch.dtype) -> Any:
        """What `custom_fwd(cast_inputs=...)` casts: tensors of the device type, which are on the CPU here."""
        return cast(value, "cpu" if device_type == "cuda" else device_type, dtype)

    enter, leave = region.__enter__, region.__exit__

    def entered(self: Any) -> Any:
        result = enter(self)
        if self.device == "cuda":
            self._cpu_before = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
            torch.set_autocast_enabled("cpu", self._enabled)
            torch.set_autocast_dtype("cpu", self.fast_dtype)
        return result

    def left(self: Any, *exception: Any) -> Any:
        result = leave(self, *exception)
        if self.device == "cuda":
            torch.set_autocast_enabled("cpu", self._cpu_before[0])
            torch.set_autocast_dtype("cpu", self._cpu_before[1])
        return result

    def cleared() -> None:
        clear()
        _casts.clear()

    region.__enter__, region.__exit__ = entered, left  # type: ignore[method-assign]
    torch.clear_autocast_cache = cleared
    torch.amp.autocast_mode._cast = cast_on_cpu
