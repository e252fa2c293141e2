"""Which operators of ATen get a kernel of their own on the simulated device."""

from __future__ import annotations

from typing import Any

import torch

_WHOLE = frozenset(["convolution", "convolution_backward"])
"""Composites that would fall apart into kernels of the build; the CPU has them as one."""


def operators() -> list[str]:
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
    if torch.Tag.inplace_view in operator_named(name).tags and not has(
        full, "CPU"
    ):
        return False  # it changes the shape of a tensor, wherever its memory is
    if has(full, "CUDA"):
        return True  # a build with CUDA has kernels for the real device, which must not run
    if name.partition(".")[0] in _WHOLE or has(full, "CPU"):
        return True
    if has(full, "CompositeExplicitAutogradNonFunctional"):
        return True
    return has(full, "CompositeExplicitAutograd") and not _is_view(
        operator_named(name)
    )


def composites() -> list[str]:
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


def operator_named(name: str) -> Any:
    """`add.Tensor` -> torch.ops.aten.add.Tensor."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")
