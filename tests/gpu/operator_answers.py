"""Run by `operators` in a process of its own: what torch's own operator samples give, in every
precision and under autocast, on the simulated GPU (cpu) or on the real one (cuda).

Prints a dictionary as JSON: `operator dtype` -> dtype of what comes out, or the kind of error.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from typing import Any

import torch

from amp_migrate.runtime import simulated_gpu
from tests.runtime.operator_samples import NOT_SIMULATED, full_name, moved, op_db

WAYS: dict[str, tuple[torch.dtype, torch.dtype | None]] = {
    "float16": (torch.float16, None),
    "bfloat16": (torch.bfloat16, None),
    "float32 under float16": (torch.float32, torch.float16),
    "float16 under float16": (torch.float16, torch.float16),
    "float32 under bfloat16": (torch.float32, torch.bfloat16),
}
"""Type of the operands, and what autocast is on with."""


def answer(info: Any, given: torch.dtype, region: torch.dtype | None) -> str | None:
    """Of the operator's first sample; None where it has none."""
    try:
        sample = next(iter(info.sample_inputs("cpu", given))).transform(moved)
    except Exception:  # no sample can be made on a CPU, or there is none
        return None
    try:
        with torch.autocast("cuda", region or torch.float16, enabled=region is not None):
            return _dtype(info(sample.input, *sample.args, **sample.kwargs))
    except Exception as error:
        return "banned" if "unsafe to autocast" in str(error) else "raises"


def _dtype(found: Any) -> str:
    while isinstance(found, (list, tuple)) and found:
        found = found[0]
    kind = found.dtype if isinstance(found, torch.Tensor) else type(found).__name__
    return str(kind).removeprefix("torch.")


def main(place: str, every: int, seconds: float, share: str) -> None:
    """All of them, or one of `every`, in their order, until the time is over; of these the share
    `0/2` or `1/2`, say.
    """
    number, shares = map(int, share.split("/"))
    end = time.monotonic() + seconds
    warnings.simplefilter("ignore")
    if place == "cpu":
        simulated_gpu.install()
    known = [info for info in op_db if not any(name in full_name(info) for name in NOT_SIMULATED)]
    found = {}
    for info in known[::every][number::shares]:
        if time.monotonic() > end:
            break
        for way, (given, region) in WAYS.items():
            said = answer(info, given, region)
            if said is not None:
                found[f"{full_name(info)}, {way}"] = said
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # a GPU's threads are not waited for


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
