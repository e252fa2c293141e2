"""The float64 reference: the program as it is, its random numbers and its parameters, but computed in double precision.

Every function of torch that computes is given its float32 operands in float64. Parameters stay float32, so the reference starts
from the same values and draws the same random numbers; only the rounding in between is gone. Views, in-place functions and
explicit conversions keep their dtype: a buffer that is written in place must stay the same buffer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_AS_THEY_ARE = frozenset(
    """
    view reshape view_as reshape_as expand expand_as __getitem__ __get__ __set__ __setitem__ transpose permute squeeze unsqueeze
    narrow select t flatten unflatten chunk split tensor_split unbind detach contiguous as_strided diagonal movedim swapaxes
    swapdims unfold moveaxis to type float half bfloat16 double int long cpu cuda numpy item tolist size stride dim numel
    __len__ __iter__ __deepcopy__ __reduce_ex__ __repr__ __format__ __bool__ __float__ __int__ __index__ __array__ __hash__
    backward register_hook retain_grad requires_grad_ share_memory_ is_floating_point is_complex data_ptr storage
    untyped_storage element_size is_contiguous storage_offset get_device clone set_ new_zeros new_ones new_full new_empty
    new_tensor zeros_like ones_like full_like empty_like rand_like randn_like randint_like multinomial as_tensor tensor
    from_numpy result_type can_cast is_same_size typename is_tensor register_post_accumulate_grad_hook
    """.split()
)


class Float64(TorchFunctionMode):
    """While active, what carries gradients is computed in float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not torch.is_grad_enabled() or "out" in kwargs:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _AS_THEY_ARE or not args:
            return func(*args, **kwargs)
        if name.endswith("_") and not name.endswith("__") or name.startswith("__i") and name.endswith("__"):
            return func(args[0], *(_like(args[0], value) for value in args[1:]), **kwargs)
        return func(*map(_double, args), **{key: _double(value) for key, value in kwargs.items()})


def _double(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype is torch.float32 and not value.is_sparse else value
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(_double, value))
    return value


def _like(target: Any, value: Any) -> Any:
    """An operand of an in-place function, in the dtype of what it writes to."""
    mixed = isinstance(target, torch.Tensor) and isinstance(value, torch.Tensor) and value.dtype is torch.float64
    return value.to(target.dtype) if mixed and target.dtype is torch.float32 else value


def compute_in_float64() -> None:
    """Install the reference in this process, for good."""
    Float64().__enter__()
