"""Lets the C++ code of a torch without a GPU go on where it asks for the device "cuda".

Two things are asked of it. The *guard* switches between devices; torch puts an empty one in the
place of CUDA's where that one counts no GPU (c10/core/impl/DeviceGuardImplInterface.h,
`ensureCUDADeviceGuardSet`). The *hooks* tell whether CUDA is the accelerator of this build
(aten/src/ATen/DeviceAccelerator.cpp, `getAccelerator`); autograd sends the backward of CUDA tensors
to the accelerator's thread. Both are objects with virtual functions, and so can be given answers.
A build with CUDA has hooks of its own, which would call its driver and choose cuDNN; they get the
virtual functions of a build without it (aten/src/ATen/detail/CUDAHooksInterface.h). It also has a
function that chooses among the fused kernels of attention, by the properties of the GPU.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import torch

_CUDA = 1
"""`DeviceType::CUDA` of c10/core/DeviceType.h."""
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
_SDP_CHOICE = "_ZN2at6native22_fused_sdp_choice_stubE"
"""A `DispatchStub` (aten/src/ATen/native/DispatchStub.h): a pointer for the CPU, one for CUDA."""
_BASE = "_ZTVN2at18CUDAHooksInterfaceE"
_BEFORE = 2
"""Words of a table before its first function: an offset, and the type."""
_GUARD_HEADER = "include/c10/core/impl/DeviceGuardImplInterface.h"
_HEADER = "include/ATen/detail/AcceleratorHooksInterface.h"
_VIRTUAL = re.compile(r"^\s*virtual\b[^;{]*?(~?\w+)\(", re.MULTILINE)
_ANSWERS = ("isBuilt", "isAvailable", "hasPrimaryContext", "deviceCount")
"""Hooks that answer 1."""
_TABLE = 256
_GUARD_TABLE = 32
_ONE = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value
"""A function that answers 1, with any arguments."""
Words = ctypes.Array[ctypes.c_void_p]


def pretend() -> None:
    """Set both in this process, for good.

    Raises RuntimeError where this build of torch does not let it.
    """
    folder = Path(torch.__file__).parent
    try:
        cpu = _library(folder, "torch_cpu")
        _set_guard(
            _library(folder, "c10"),
            (folder / _GUARD_HEADER).read_text(encoding="utf-8"),
        )
        _set_hooks(cpu, (folder / _HEADER).read_text(encoding="utf-8"))
        if torch.backends.cuda.is_built():
            (ctypes.c_void_p * (_CUDA + 1)).in_dll(cpu, _SDP_CHOICE)[_CUDA] = (
                None
            )
    except (OSError, ValueError, AttributeError, StopIteration):
        message = "this build of torch cannot simulate a GPU; use --device cuda where there is one"
        raise RuntimeError(message) from None


def _library(folder: Path, name: str) -> ctypes.CDLL:
    names = (f"lib{name}.so", f"lib{name}.dylib")
    return ctypes.CDLL(
        str(
            next(
                folder / "lib" / x
                for x in names
                if (folder / "lib" / x).exists()
            )
        )
    )


def _set_guard(library: ctypes.CDLL, header: str) -> None:
    """An object that counts no GPU, whatever it is asked, is registered and then replaced."""
    registry = (ctypes.c_void_p * (_CUDA + 1)).in_dll(library, _REGISTRY)
    if not hasattr(torch._C, "_ensureCUDADeviceGuardSet"):
        registry[_CUDA] = _guard_like_the_cpu(registry, header)
        return
    if registry[_CUDA] is None:
        zero = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)(lambda _: 0)
        table = _words([ctypes.cast(zero, ctypes.c_void_p).value] * 64)
        instance = _words([ctypes.addressof(table)])
        _keep(zero, table, instance)
        registry[_CUDA] = ctypes.addressof(instance)
    torch._C._ensureCUDADeviceGuardSet()


def _guard_like_the_cpu(registry: Words, header: str) -> int:
    """For torch before 2.6, which has no empty guard for CUDA: that of the CPU, which does nothing
    either. It answers that it guards CUDA, and that the device is 1, which reads as "cuda:0".
    """
    cpu = (ctypes.c_void_p * 1).from_address(registry[0] or 0)
    table = _words(
        list((ctypes.c_void_p * _GUARD_TABLE).from_address(cpu[0] or 0))
    )
    places = _slots(header)
    for name in ("type", "exchangeDevice", "getDevice"):
        table[places[name]] = _ONE
    table[places["getDefaultStream"]] = table[places["getStream"]]
    instance = _words([ctypes.addressof(table)])
    _keep(table, instance)
    return ctypes.addressof(instance)


def _set_hooks(library: ctypes.CDLL, header: str) -> None:
    """The table of virtual functions is copied, some entries changed, and the copy put in place."""
    get = getattr(library, _HOOKS)
    get.restype = ctypes.c_void_p
    instance = (ctypes.c_void_p * 1).from_address(get())
    table = _words(list(_functions(library, instance)))
    places = _slots(header)
    for name in _ANSWERS:
        if name in places:
            table[places[name]] = _ONE
    _keep(table)
    instance[0] = ctypes.addressof(table)


def _functions(library: ctypes.CDLL, instance: Words) -> Words:
    if torch.backends.cuda.is_built():
        address = ctypes.addressof(ctypes.c_void_p.in_dll(library, _BASE))
        address += _BEFORE * ctypes.sizeof(ctypes.c_void_p)
    else:
        address = instance[0] or 0
    return (ctypes.c_void_p * _TABLE).from_address(address)


def _slots(header: str) -> dict[str, int]:
    """Places in the table, by the order of the header; a destructor takes two."""
    found: dict[str, int] = {}
    for name in _VIRTUAL.findall(header):
        found[name] = len(found) + any(known.startswith("~") for known in found)
    return found


def _keep(*values: Any) -> None:
    """C++ looks at them until the process has ended, later than Python."""
    for value in values:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def _words(values: list[int | None]) -> Words:
    return (ctypes.c_void_p * len(values))(*values)
