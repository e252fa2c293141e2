"""The accelerator of a run: none, or a made-up CUDA device that computes on the CPU.

With `amp`, `torch.cuda.is_available()` is true and "cuda" is a device like any other to the
program, so that the switch it computes is tested too; every tensor really lives on the CPU,
autocast and the scaler work there. Without `amp`, CUDA is not available, and `.cuda()` without a
condition leaves the tensor where it is.

The device is made up for the program alone. To torch itself, which asks as well, there is none: a
build for CUDA would go on to streams and drivers that nobody has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")
# Descriptors make a new wrapper at each access: compare with ==, not with is.
_GET_DEVICE = vars(torch._C.TensorBase)["device"].__get__
_GET_GRADIENT = vars(torch._C.TensorBase)["grad"].__get__


class Device(TorchFunctionMode):
    """Carries every use of CUDA to the CPU while it is entered."""

    def __init__(
        self, program: str, amp: bool, on_gradient_read: Callable[[torch.Tensor], None]
    ) -> None:
        super().__init__()
        self.autocast_dtypes: set[str] = set()
        self._program = program
        self._amp = amp
        self._on_gradient_read = on_gradient_read

    def install(self) -> None:
        """Patch what is no torch function: availability, loading, and with AMP where autocast and
        the scaler work.
        """
        torch.cuda.is_available = _told_to_programs(torch.cuda.is_available, self._amp)
        torch.cuda.device_count = _told_to_programs(torch.cuda.device_count, 1)
        torch.load = _with_keyword_on_cpu(torch.load, "map_location")
        for name, answer in _CUDA_ANSWERS.items():
            setattr(torch.cuda, name, lambda *args, _answer=answer, **kwargs: _answer)
        if self._amp:
            torch._C._set_mkldnn_enabled(False)  # its LSTM has no float16
            torch.amp.GradScaler.__init__ = _on_cpu(torch.amp.GradScaler.__init__)  # type: ignore[method-assign]
            torch.autocast.__init__ = self._recorded(_on_cpu(torch.autocast.__init__))  # type: ignore[method-assign]
            for name in ("custom_fwd", "custom_bwd"):
                setattr(torch.amp, name, _decorator_on_cpu(getattr(torch.amp, name)))

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.device:
            return func(*args, **(kwargs or {}))
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.nn.functional.binary_cross_entropy and torch.is_autocast_enabled("cpu"):
            raise RuntimeError("binary_cross_entropy is unsafe to autocast on CUDA")
        if func == _GET_DEVICE and self._amp and self._asked_by_program():
            return torch.device("cuda", 0)
        result = func(
            *(_to_cpu(arg) for arg in args),
            **{key: _to_cpu(value) for key, value in (kwargs or {}).items()},
        )
        if func == _GET_GRADIENT and result is not None and self._asked_by_program():
            self._on_gradient_read(args[0])
        return result

    def _asked_by_program(self) -> bool:
        return sys._getframe(2).f_code.co_filename == self._program

    def _recorded(self, init: Callable[..., None]) -> Callable[..., None]:
        def recording(autocast: torch.autocast, *args: Any, **kwargs: Any) -> None:
            init(autocast, *args, **kwargs)
            if autocast._enabled:
                self.autocast_dtypes.add(str(autocast.fast_dtype).removeprefix("torch."))

        return recording


_CUDA_ANSWERS = {
    "max_memory_allocated": 0,
    "memory_allocated": 0,
    "max_memory_reserved": 0,
    "memory_reserved": 0,
    "reset_peak_memory_stats": None,
    "synchronize": None,
    "empty_cache": None,
    "set_device": None,
    "manual_seed": None,
    "manual_seed_all": None,
    "current_device": 0,
    "get_device_name": "made up",
    "get_device_capability": (7, 5),
    "is_bf16_supported": False,
    "is_current_stream_capturing": False,
}


def _told_to_programs(function: Callable[[], int], answer: int) -> Callable[[], Any]:
    """`function` for callers in torch, `answer` for everybody else."""

    def told() -> int:
        module = sys._getframe(1).f_globals.get("__name__", "")
        return function() if module.partition(".")[0] == "torch" else answer

    return told


def _to_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return CPU
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return CPU
    return value


def _on_cpu(init: Callable[..., None]) -> Callable[..., None]:
    """`__init__` of autocast or GradScaler, on the CPU for "cuda"; float16 is CUDA's default,
    bfloat16 the CPU's.
    """

    def on_cpu(instance: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:
        device = kwargs.pop("device_type", device)
        if isinstance(instance, torch.autocast) and device == "cuda" and not args:
            kwargs["dtype"] = kwargs.get("dtype") or torch.float16
        init(instance, "cpu" if device == "cuda" else device, *args, **kwargs)

    return on_cpu


def _decorator_on_cpu(decorator: Callable[..., Any]) -> Callable[..., Any]:
    def on_cpu(*args: Any, device_type: str, **kwargs: Any) -> Any:
        return decorator(
            *args, device_type="cpu" if device_type == "cuda" else device_type, **kwargs
        )

    return on_cpu


def _with_keyword_on_cpu(function: Callable[..., Any], keyword: str) -> Callable[..., Any]:
    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        if keyword in kwargs:
            kwargs[keyword] = _to_cpu(kwargs[keyword])
        return function(*args, **kwargs)

    return on_cpu
