"""Device types: since when autocast and GradScaler support them, and in which dtypes.

Sources: `torch/amp/autocast_mode.py` and `torch/amp/grad_scaler.py` of the versions named,
amp-pitfalls section 6.
"""

from __future__ import annotations

from typing import TypeAlias

from amp_migrate.records import NamedTuple

Version: TypeAlias = tuple[int, int]


class Device(NamedTuple):
    """One device type."""

    name: str
    dtype: str
    """What autocast uses there when nothing is said."""
    autocast: Version
    scaler: Version | None
    float16: Version | None
    """Since when autocast takes float16 there."""
    bfloat16: Version | None
    module: str = ""
    """The package of the device below torch."""
    asks_bfloat16: Version | None = None
    """Since when `is_bf16_supported(including_emulation=False)` of that package can be asked."""


DEVICES: tuple[Device, ...] = (
    Device(
        "cuda", "float16", (1, 6), (1, 6), (1, 6), (1, 10), "torch.cuda", (2, 4)
    ),
    Device("cpu", "bfloat16", (1, 10), (2, 3), (2, 2), (1, 10), "torch.cpu"),
    Device("mps", "float16", (2, 5), (2, 8), (2, 5), (2, 6), "torch.mps"),
    Device(
        "xpu", "float16", (2, 0), (2, 3), (2, 0), (2, 0), "torch.xpu", (2, 10)
    ),
    Device("hpu", "bfloat16", (2, 0), (2, 3), (2, 0), (2, 0), "torch.hpu"),
    Device("mtia", "float16", (2, 5), (2, 5), (2, 5), (2, 5), "torch.mtia"),
    Device("xla", "bfloat16", (2, 0), None, None, (2, 0), ""),
    Device("npu", "float16", (2, 1), (2, 3), (2, 1), (2, 1), "torch.npu"),
)


MADE_ON_CPU = frozenset(
    f"torch.{name}"
    for name in "zeros ones empty rand randn eye linspace logspace full arange "
    "randint randperm normal from_numpy".split()
)
"""Functions that make tensors on the CPU where no `device=` says otherwise, of numbers alone."""


def device(name: str) -> Device | None:
    """Find the row of a device type, which may carry an index: `cuda:0`."""
    plain = name.partition(":")[0]
    return next((row for row in DEVICES if row.name == plain), None)


SETS_DEVICE = ("torch.set_default_device", "torch.set_default_tensor_type")
"""What makes all tensors on another device from there on."""
HAS_ACCELERATOR = ("torch.cuda.is_available", "torch.accelerator.is_available")
TAKES_DEVICES = ("device", "device_ids", "output_device", "map_location")
"""Arguments that are devices, and nothing else, wherever torch takes them."""
INDICES = ("torch.cuda.current_device", "torch.distributed.get_rank")
"""Whole numbers that tell a device."""
