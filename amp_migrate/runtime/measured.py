"""What a step took: time by the clock of its device, and the memory in use."""

from __future__ import annotations

import time
from typing import Any

import torch


def devices(optimizer: Any) -> set[torch.device]:
    return {
        parameter.device
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.is_cuda
    }


def now(cpu: bool, devices: set[torch.device]) -> Any:
    """On a GPU an event on each device that the optimizer works on."""
    return (
        time.perf_counter()
        if cpu
        else {device: _event(device) for device in devices}
    )


def _event(device: torch.device) -> Any:
    with torch.cuda.device(device):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
    return event


def elapsed(
    before: dict[torch.device, Any], after: dict[torch.device, Any]
) -> float:
    """Seconds, of the device that took longest."""
    both = before.keys() & after.keys()
    return max(
        (before[one].elapsed_time(after[one]) / 1e3 for one in both),
        default=0.0,
    )


def peak_memory(cpu: bool) -> int:
    """Of all devices together."""
    if not cpu:
        return sum(
            map(
                torch.cuda.max_memory_allocated,
                range(torch.cuda.device_count()),
            )
        )
    try:
        import resource
    except ImportError:  # Windows
        return 0
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024
