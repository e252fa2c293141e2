"""`torch.cuda.FloatTensor` and its like: how programs name a type and a device at once."""

from __future__ import annotations

from typing import Any

import torch

_TYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


class TensorType(type):
    """A call makes a tensor of the type; tensors on the GPU with its dtype are its instances."""

    dtype: torch.dtype

    def __call__(cls, *values: Any, **_: Any) -> Any:
        if len(values) == 1 and not isinstance(values[0], (int, torch.Size)):
            return torch.as_tensor(values[0]).to("cuda", cls.dtype, copy=True)
        return torch.empty(*values, dtype=cls.dtype, device="cuda")

    def __instancecheck__(cls, value: object) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and value.is_cuda
            and value.dtype is cls.dtype
        )


def install() -> None:
    """Put them into `torch.cuda`, and have `Tensor.type` know them, for good."""
    cuda: Any = torch.cuda
    named: dict[Any, torch.dtype] = {}
    for name, dtype in _TYPES.items():
        made = TensorType(
            name, (), {"dtype": dtype, "__module__": "torch.cuda"}
        )
        setattr(cuda, name, made)
        named[made] = named[f"torch.cuda.{name}"] = dtype
    kind: Any = torch.Tensor
    plain = kind.type

    def typed(
        tensor: Any, dtype: Any = None, *arguments: Any, **keywords: Any
    ) -> Any:
        if isinstance(dtype, (str, TensorType)) and dtype in named:
            return tensor.to("cuda", named[dtype])
        return plain(
            tensor,
            *((dtype,) if dtype is not None else ()),
            *arguments,
            **keywords,
        )

    kind.type = typed
