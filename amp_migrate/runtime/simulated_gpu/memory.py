"""Tensors of the device "cuda:0" whose memory is the host's.

DLPack hands a tensor over as a struct in which one word names the device. With that word changed,
torch makes a tensor of the other device on the same memory: to the dispatcher, to autocast and to
the program it is a CUDA tensor in every respect, and nothing is copied.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

from amp_migrate.runtime.simulated_gpu import left_behind

_CPU, _CUDA = 1, 2
"""`kDLCPU` and `kDLCUDA` of dlpack.h."""
_DEVICE_WORD = 8
"""Offset of `DLTensor.device`, a type and an index, behind the data pointer."""
INDEX = int(os.environ.get("LOCAL_RANK", "0"))
"""Each process of a launcher has a GPU of its own."""
_address: Any = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype, _address.argtypes = (
    ctypes.c_void_p,
    [ctypes.py_object, ctypes.c_char_p],
)
_to_capsule: Any = torch._C._to_dlpack
_from_capsule: Any = torch._C._from_dlpack


def _retyped(tensor: torch.Tensor, device: int) -> torch.Tensor:
    capsule = _to_capsule(tensor)
    place = _address(capsule, b"dltensor") + _DEVICE_WORD
    words = (ctypes.c_int32 * 2).from_address(place)
    words[0], words[1] = device, INDEX if device == _CUDA else 0
    found: torch.Tensor = _from_capsule(capsule)
    return found


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a CPU tensor as a CUDA tensor. Sparse and quantized ones stay as they are."""
    if tensor.layout is torch.strided:
        return _retyped(tensor, _CUDA)
    left_behind.layouts.add(str(tensor.layout))
    return tensor


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a simulated CUDA tensor as a CPU tensor."""
    return _retyped(tensor, _CPU)
