"""A made-up CUDA device that computes on the CPU, and knows which tensors were moved to it.

Only a tensor that the program itself moved says that it is on "cuda", so a program that keeps to
the CPU by a flag of its own is seen to do so while CUDA is available.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")
FIRST_SCALE = 1024.0
GROWTH_INTERVAL = 2
"""The scale moves within a few steps, so that gradients of two scales in one step are seen."""
_BASE = vars(torch._C.TensorBase)
_GET_DEVICE, _IS_CUDA = _BASE["device"].__get__, _BASE["is_cuda"].__get__
_GET_GRADIENT, _SET_DATA = _BASE["grad"].__get__, _BASE["data"].__set__
_ASKED_AS_IT_IS = (torch.device, torch._C._nn._parse_to)  # the device that a module moves to
_GET_DATA = _BASE["data"].__get__
_LINEAR = {
    "mul",
    "mul_",
    "div",
    "div_",
    "true_divide",
    "zero_",
    "detach",
    "detach_",
    "__get__",
    "__set__",
    "__imul__",
    "__itruediv__",
    "__mul__",
    "__truediv__",
    "__rmul__",
    "is_floating_point",
}
_LEAVES = {torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.item}
_MATMULS = {
    torch.nn.functional.linear,
    torch.nn.functional.conv1d,
    torch.nn.functional.conv2d,
    torch.nn.functional.conv_transpose2d,
    torch.matmul,
    torch.mm,
    torch.bmm,
    torch.Tensor.matmul,
    torch.Tensor.__matmul__,
    torch.Tensor.mm,
    torch.Tensor.bmm,
    torch.einsum,
}
_ANSWERS = {
    "device_count": 1,
    "current_device": 0,
    "synchronize": None,
    "empty_cache": None,
    "set_device": None,
    "manual_seed": None,
    "manual_seed_all": None,
    "memory_allocated": 0,
    "reset_peak_memory_stats": None,
    "max_memory_allocated": 0,
    "get_device_name": "made up",
    "get_device_capability": (7, 5),
    "is_bf16_supported": False,
}


class Machine(TorchFunctionMode):
    """Carries every use of CUDA to the CPU while it is entered."""

    def __init__(self, folder: str, amp: bool, is_scaled: Callable[[torch.Tensor], bool]) -> None:
        """`is_scaled` tells whether the gradient of a parameter carries a scale."""
        super().__init__()
        self.scaled_reads: Counter[str] = Counter()
        """Lines that compute with scaled gradients what is not linear in them."""
        self.autocast_dtypes: set[str] = set()
        self.float32_forwards: Counter[str] = Counter()
        """Lines of the program whose matrix products carry gradients outside autocast."""
        self.half_forwards = 0
        self.idle_casts: Counter[str] = Counter()
        """Lines that call `.float()` on what is float32 already."""
        self._folder = folder
        self._amp = amp
        self._is_scaled = is_scaled

    def install(self) -> None:
        """Patch what is no torch function: availability, loading, autocast and the scaler."""
        torch.cuda.is_available = lambda: self._amp
        self._install_accelerator()
        torch.load = _loading_on_cpu(torch.load)
        for name, answer in _ANSWERS.items():
            setattr(torch.cuda, name, lambda *args, _answer=answer, **kwargs: _answer)
        if not self._amp:
            return
        torch._C._set_mkldnn_enabled(False)
        torch.amp.GradScaler.__init__ = _scaler_on_cpu(torch.amp.GradScaler.__init__)  # type: ignore[method-assign]
        torch.autocast.__init__ = self._autocast_on_cpu(torch.autocast.__init__)  # type: ignore[method-assign]
        torch.nn.Parameter.__new__ = _parameter_where_its_data_is(torch.nn.Parameter.__new__)  # type: ignore[method-assign]
        for name in ("custom_fwd", "custom_bwd"):
            setattr(torch.amp, name, _decorator_on_cpu(getattr(torch.amp, name)))

    def _install_accelerator(self) -> None:
        """torch asks it of itself at each step, and gets the truth: there is none."""

        def answer() -> bool:
            return self._amp and self._asked_by_program()

        def current(check_available: bool = False) -> torch.device | None:
            return torch.device("cuda") if answer() else None

        torch.accelerator.is_available = answer
        torch.accelerator.current_accelerator = current

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _ASKED_AS_IT_IS:
            return func(*args, **kwargs)
        if func in (torch.Tensor.cuda, torch.Tensor.cpu, torch.Tensor.to):
            return self._moved(func, args, kwargs)
        if func in (_GET_DEVICE, _IS_CUDA):
            return self._told(func, args)
        if func == _SET_DATA:
            _mark(args[0], _marked(args[1]))
        self._observe(func, args, kwargs)
        there = _marked([args, kwargs]) or (self._amp and _names_cuda([args, kwargs]))
        result = func(
            *(_to_cpu(arg) for arg in args), **{k: _to_cpu(value) for k, value in kwargs.items()}
        )
        if there and func not in _LEAVES:
            _mark(result, True)
        self._follow_gradient(func, args, result)
        return result

    def _follow_gradient(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        """Gradients may be multiplied while they are scaled; whatever else is computed with them
        is wrong.
        """
        if func == _GET_GRADIENT and result is not None and self._asked_by_program():
            result.gradient_of = args[0]
        elif func == _GET_DATA and (owner := getattr(args[0], "gradient_of", None)) is not None:
            result.gradient_of = owner
        elif getattr(func, "__name__", "") not in _LINEAR:
            owners = [getattr(one, "gradient_of", None) for one in args]
            if any(owner is not None and self._is_scaled(owner) for owner in owners):
                self.scaled_reads[self._line()] += 1

    def _moved(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        was, tensor = _marked(args[0]), args[0]
        if func is torch.Tensor.to:
            given = [*args[1:], *kwargs.values()]
            result = func(
                tensor,
                *(_to_cpu(a) for a in args[1:]),
                **{k: _to_cpu(value) for k, value in kwargs.items()},
            )
            now = _target(given, was)
        else:
            result, now = tensor, func is torch.Tensor.cuda
        if now != was and result is tensor and self._amp:
            result = tensor.clone()
        _mark(result, now and self._amp)
        return result

    def _told(self, func: Any, args: tuple[Any, ...]) -> Any:
        there = self._amp and _marked(args[0]) and self._asked_by_program()
        if func == _IS_CUDA:
            return there
        return torch.device("cuda", 0) if there else func(*args)

    def _observe(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._amp:
            return
        if func is torch.Tensor.float and args[0].dtype is torch.float32:
            if line := self._line():
                self.idle_casts[line] += 1
        if func in _MATMULS and torch.is_grad_enabled() and _trains([*args, *kwargs.values()]):
            if torch.is_autocast_enabled("cpu"):
                self.half_forwards += 1
            else:
                self.float32_forwards[self._line()] += 1

    def _line(self) -> str:
        """The innermost line of the program that is running."""
        frame = sys._getframe(3)
        while frame is not None and not frame.f_code.co_filename.startswith(self._folder):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return ""
        return f"{frame.f_code.co_filename.removeprefix(self._folder)}:{frame.f_lineno}"

    def _asked_by_program(self) -> bool:
        frame: Any = sys._getframe(1)
        while frame.f_code.co_filename == __file__:
            frame = frame.f_back
        return str(frame.f_code.co_filename).startswith(self._folder)

    def _autocast_on_cpu(self, init: Callable[..., None]) -> Callable[..., None]:
        def on_cpu(region: Any, device_type: str, dtype: Any = None, **kwargs: Any) -> None:
            if not isinstance(device_type, str):
                raise TypeError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
            if device_type == "cuda":
                device_type, dtype = "cpu", dtype or torch.float16
            init(region, device_type, dtype=dtype, **kwargs)
            if region._enabled:
                self.autocast_dtypes.add(str(region.fast_dtype).removeprefix("torch."))

        return on_cpu


def _parameter_where_its_data_is(new: Callable[..., Any]) -> Callable[..., Any]:
    """`nn.Linear(6, 8, device="cuda")` makes its parameters of tensors that are there already."""

    def made(cls: type, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        result = new(cls, data, *args, **kwargs)
        _mark(result, _marked(data))
        return result

    return made


def _trains(values: list[Any]) -> bool:
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)


def _target(given: list[Any], was: bool) -> bool:
    """Whether `.to(...)` leads to CUDA."""
    for value in given:
        if isinstance(value, torch.Tensor):
            return _marked(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return True
        if isinstance(value, (str, torch.device)):
            return str(value).startswith("cuda")
    return was


def _names_cuda(values: Any) -> bool:
    """Whether a device among the arguments is CUDA's."""
    if isinstance(values, dict):
        return _names_cuda(list(values.values()))
    if isinstance(values, (list, tuple)):
        return any(_names_cuda(value) for value in values)
    if isinstance(values, torch.device):
        return values.type == "cuda"
    return isinstance(values, str) and values.startswith("cuda")


def _marked(values: Any) -> bool:
    if isinstance(values, torch.Tensor):
        return getattr(values, "is_made_up", False)
    if isinstance(values, dict):
        return _marked(list(values.values()))
    return isinstance(values, (list, tuple)) and any(_marked(value) for value in values)


def _mark(value: Any, there: bool) -> None:
    if isinstance(value, torch.Tensor):
        if there or getattr(value, "is_made_up", False):
            value.is_made_up = there  # type: ignore[attr-defined]
    elif isinstance(value, (list, tuple)):
        for item in value:
            _mark(item, there)


def _to_cpu(value: Any) -> Any:
    return CPU if _names_cuda(value) and isinstance(value, (str, torch.device)) else value


def _scaler_on_cpu(init: Callable[..., None]) -> Callable[..., None]:
    def on_cpu(scaler: Any, device: str = "cuda", **kwargs: Any) -> None:
        if not isinstance(device, str):
            raise TypeError(f"GradScaler's device is {device!r}")
        kwargs.setdefault("init_scale", FIRST_SCALE)
        kwargs.setdefault("growth_interval", GROWTH_INTERVAL)
        init(scaler, "cpu" if device == "cuda" else device, **kwargs)

    return on_cpu


def _decorator_on_cpu(decorator: Callable[..., Any]) -> Callable[..., Any]:
    def on_cpu(*args: Any, device_type: str, **kwargs: Any) -> Any:
        known = "cpu" if device_type == "cuda" else device_type
        return decorator(*args, device_type=known, **kwargs)

    return on_cpu


def _loading_on_cpu(load: Callable[..., Any]) -> Callable[..., Any]:
    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        if "map_location" in kwargs:
            kwargs["map_location"] = _to_cpu(kwargs["map_location"])
        return load(*args, **kwargs)

    return on_cpu
