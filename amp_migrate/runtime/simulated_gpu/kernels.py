"""Kernels for the dispatch key of CUDA: each runs the CPU's on the same memory.

The dispatcher is the level at which a GPU differs from a CPU. So autocast's own lists, its weight
cache, composite functions, autograd's device thread and the choice among overloads are torch's own
here, not a copy of them.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from amp_migrate.runtime.simulated_gpu import recurrent
from amp_migrate.runtime.simulated_gpu.host_calls import kernel_of
from amp_migrate.runtime.simulated_gpu.operators import (
    composites,
    operator_named,
    operators,
)
from amp_migrate.runtime.simulated_gpu.special import special_kernels

_libraries: list[torch.library.Library] = []


def install() -> None:
    """Register the kernels in this process, for good."""
    library = torch.library.Library("aten", "IMPL")
    rest = torch.library.Library("_", "IMPL")
    _libraries.extend(
        (library, rest)
    )  # their destruction would take the kernels with them
    special = special_kernels()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Before torch 2.6, an operator of another library raises: it has no kernel for CUDA.
        for key in ("CUDA", "SparseCUDA") if hasattr(rest, "fallback") else ():
            rest.fallback(_fallback, key)
        whole = {
            name: operator_named(name).decompose for name in composites()
        } | recurrent.CELLS
        for name, kernel in whole.items():
            for key in ("AutogradCUDA", "CUDA"):
                library.impl(name, kernel, key)
        # Before torch 2.6, a kernel cannot be registered twice.
        for name in {*operators(), *special} - whole.keys():
            library.impl(
                name,
                special.get(name) or kernel_of(operator_named(name)),
                "CUDA",
            )
        _sparse(library)
    _collectives()


def _sparse(library: torch.library.Library) -> None:
    """A build with CUDA has kernels for sparse tensors, which ask its driver."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key("SparseCUDA")
    for full in names:
        namespace, _, name = full.partition("::")
        if namespace == "aten":
            library.impl(name, kernel_of(operator_named(name)), "SparseCUDA")


def _fallback(operator: Any, *arguments: Any, **keywords: Any) -> Any:
    return kernel_of(operator)(*arguments, **keywords)


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
                library.impl(name, kernel_of(operator), "CUDA")
