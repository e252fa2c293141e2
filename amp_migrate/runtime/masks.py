"""Dropout that drops the same values whatever the precision.

On a GPU one kernel draws the mask and applies it, and how many random numbers a thread draws at
once depends on the width of the values: a program in float16 drops others than in float32, and its
losses could be compared with nothing. (torch 2.13, aten/src/ATen/native/cuda/Dropout.cu: the vector
size comes from the dtype.) On the CPU the numbers do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_libraries: list[torch.library.Library] = []


def same_masks(key: str = "CUDA") -> Callable[[], int]:
    """Replace the kernel of dropout for `key`, for good; the result tells how often it has run.

    Attention with dropout takes the path that goes through dropout, since its other kernels draw
    numbers of their own.
    """
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)  # its destruction would take the kernel with it
    count = 0

    def counted(
        value: torch.Tensor, p: float, train: bool | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal count
        count += 1
        return native_dropout(value, p, train)

    library.impl("native_dropout", counted, key)
    _attention_by_parts()
    _recurrent_by_parts()
    return lambda: count


def native_dropout(
    value: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `aten::native_dropout`: the values and the mask of those that stay; the mask is drawn in
    float32.
    """
    if train is False or p == 0:
        return value.clone(), torch.ones_like(value, dtype=torch.bool)
    stays = torch.empty(
        value.shape, dtype=torch.float32, device=value.device
    ).bernoulli_(1 - p)
    scale = 1 / (1 - p) if p < 1 else 0.0
    return value * stays.to(value.dtype) * scale, stays.bool()


def _recurrent_by_parts() -> None:
    """Of networks with dropout between their layers: cuDNN draws it by itself, torch calls dropout
    there.
    """
    functions: Any = torch._VF
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        setattr(functions, name, _without_cudnn(getattr(functions, name)))


def _without_cudnn(function: Callable[..., Any]) -> Callable[..., Any]:
    def by_parts(*arguments: Any) -> Any:
        if not any(isinstance(one, float) and one for one in arguments):
            return function(*arguments)
        enabled = torch._C._get_cudnn_enabled()
        torch._C._set_cudnn_enabled(False)
        try:
            return function(*arguments)
        finally:
            torch._C._set_cudnn_enabled(enabled)

    return by_parts


def _attention_by_parts() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    functional: Any = torch.nn.functional
    attention = functional.scaled_dot_product_attention

    def by_parts(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        *more: Any,
        **named: Any,
    ) -> Any:
        if not dropout_p:
            return attention(
                query, key, value, attn_mask, dropout_p, *more, **named
            )
        with sdpa_kernel(SDPBackend.MATH):
            return attention(
                query, key, value, attn_mask, dropout_p, *more, **named
            )

    functional.scaled_dot_product_attention = by_parts
