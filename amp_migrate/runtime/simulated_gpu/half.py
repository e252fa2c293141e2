"""What the kernels of a GPU do with float16 and bfloat16, on a CPU.

Tensor cores multiply half operands, sum in float32 and round once, and a CPU's half kernels are
slow or missing; so both are computed in float32 and rounded. Random numbers are drawn in float32
too, so that a program draws the same ones in every precision.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import torch

from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.methods import PRODUCTS
from amp_migrate.torch_facts.ops.row import Kernels

HALVES = (torch.float16, torch.bfloat16, torch.complex32)
_NAMES = {
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.complex32: "ComplexHalf",
}
_WIDE = {torch.complex32: torch.complex64}
"""All others are widened to float32."""
_REAL = {torch.complex32: torch.float16}
_MISSING = "not implemented for '"
_KERNEL_OF = re.compile("_(forward|ex)$")
_TRANSFORMS = {
    "fft_r2c": "fft_rfft",
    "fft_c2r": "fft_irfft",
    "fft_c2c": "fft_fft",
}
"""Kernels that several operators share."""
_narrow: set[tuple[Any, torch.dtype]] = set()
"""Operators without a CPU kernel for that dtype, as they turned up."""


def is_widened(operator: Any) -> bool:
    """Whether `operator` is computed in float32 from the start."""
    name = operator._schema.name.partition("::")[2].rstrip("_")
    return (
        name in PRODUCTS or torch.Tag.nondeterministic_seeded in operator.tags
    )


@functools.cache
def _rows() -> dict[str, ops.Op]:
    return {name: row for row in ops.ROWS for name in row.dispatcher_names}


@functools.cache
def is_lacking(operator: Any, half: torch.dtype) -> bool:
    """Whether a GPU has no kernel for it: what `torch_facts` says of the operator that it is the
    kernel of.
    """
    name = operator._schema.name.partition("::")[2].strip("_")
    rows = _rows()
    options = (
        name,
        _KERNEL_OF.sub("", name),
        _TRANSFORMS.get(name, ""),
        f"linalg_{name}",
    )
    row = next((rows[option] for option in options if option in rows), None)
    flag = Kernels.BFLOAT16 if half is torch.bfloat16 else Kernels.HALF
    return row is not None and flag not in row.kernels


def half_of(values: Any) -> torch.dtype | None:
    """The first half precision dtype among `values`."""
    for tensor in tensors(values):
        if tensor.dtype in HALVES:
            return tensor.dtype
    return None


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Tensors in arguments, in lists too."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)


def refusal(operator: Any, dtype: torch.dtype) -> NotImplementedError:
    """What a GPU says where it has no kernel for `dtype`."""
    name = operator._schema.name.partition("::")[2]
    return NotImplementedError(f'"{name}_cuda" {_MISSING}{_NAMES[dtype]}\'')


def call(
    operator: Any,
    arguments: Any,
    keywords: dict[str, Any],
    half: torch.dtype,
    wide: bool,
) -> Any:
    """Call `operator`, some of whose operands are half, on the CPU.

    Raises what a GPU raises where it has no kernel.
    """
    if is_lacking(operator, half):
        raise refusal(operator, half)
    if (
        not (wide and _is_uniform([arguments, keywords], half))
        and (operator, half) not in _narrow
    ):
        try:
            return operator(*arguments, **keywords)
        except (NotImplementedError, RuntimeError) as error:
            if not _is_missing(error):
                raise
            _narrow.add((operator, half))
    return _rounded(operator, arguments, keywords, half)


def _is_uniform(values: Any, half: torch.dtype) -> bool:
    """Mixed operands of a product are an error on a GPU, and must stay one."""
    return all(
        one.dtype is half for one in tensors(values) if one.is_floating_point()
    )


def _is_missing(error: Exception) -> bool:
    text = str(error)
    return any(
        words in text
        for words in (_MISSING, "Unsupported dtype", "support tensors of type")
    )


def _rounded(
    operator: Any, arguments: Any, keywords: dict[str, Any], half: torch.dtype
) -> Any:
    """In float32, then rounded: new results, and operands that are written to."""
    written: list[tuple[torch.Tensor, torch.Tensor]] = []

    def widened(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.dtype not in HALVES:
                return value
            wide = value.to(_WIDE.get(value.dtype, torch.float32))
            written.append((value, wide))
            return wide
        if isinstance(value, torch.dtype):
            return _WIDE.get(value, torch.float32) if value in HALVES else value
        return (
            type(value)(map(widened, value))
            if isinstance(value, (list, tuple))
            else value
        )

    first = next(tensors([arguments, keywords]), None)
    narrow = (
        first is None
        or first.dtype in HALVES
        or keywords.get("dtype") in HALVES
    )
    result = operator(
        *map(widened, arguments),
        **{name: widened(value) for name, value in keywords.items()},
    )
    if operator._schema.is_mutable:
        for value, wide in written:
            value.copy_(wide)
    return _narrowed(result, half, written) if narrow else result


def _narrowed(
    value: Any,
    half: torch.dtype,
    written: list[tuple[torch.Tensor, torch.Tensor]],
) -> Any:
    if isinstance(value, torch.Tensor):
        same = next((before for before, wide in written if wide is value), None)
        if same is not None:
            return same
        if value.dtype is torch.complex64:
            return value.to(torch.complex32)
        return (
            value.to(_REAL.get(half, half))
            if value.dtype is torch.float32
            else value
        )
    if isinstance(value, (list, tuple)):
        return type(value)(_narrowed(item, half, written) for item in value)
    return value
