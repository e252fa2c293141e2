"""Run by test_simulated_gpu in its own process: torch's own operator samples in half precision on
the simulated GPU, against what torch says that CUDA supports. Prints the differences.
"""

import itertools
import json
import sys
import unittest
import warnings
from types import ModuleType
from typing import Any

import torch

# torch's operator database imports this test helper, of which it uses nothing here.
sys.modules.setdefault("expecttest", ModuleType("expecttest")).__dict__.setdefault(
    "TestCase", unittest.TestCase
)
from torch.testing._internal import common_cuda  # noqa: E402

# Without a GPU these count as old ones, which have fewer kernels.
common_cuda.SM53OrLater = common_cuda.SM80OrLater = True
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

from amp_migrate.runtime import simulated_gpu  # noqa: E402

NOT_SIMULATED = (
    "jiterator", "sparse.mm.reduce", "_efficient_attention", "_flash_attention",
    "nn.functional.linear_cross_entropy", "as_strided.partial_views", "tensor_split",
    "broadcast_shapes", "stft", "linalg.matrix_power",
)  # fmt: skip
"""Kernels that only a compiler for GPUs makes, sparse ones, samples that live on the CPU, and those
whose samples say nothing: no tensor, a length that a GPU takes, a power that needs no inverse."""


def full_name(info: Any) -> str:
    """With that of the variant; torch 2.4 has no name for it."""
    return ".".join(filter(None, (info.name, info.variant_test_name)))


def moved(value: object) -> object:
    if isinstance(value, torch.device):
        return torch.device("cuda")
    return value.cuda() if isinstance(value, torch.Tensor) else value


def main() -> None:
    warnings.simplefilter("ignore")
    simulated_gpu.install()
    differences, count = [], 0
    for info in op_db:
        supported = info.supported_dtypes("cuda")
        if torch.float32 not in supported or any(x in full_name(info) for x in NOT_SIMULATED):
            continue
        for dtype in (torch.float16, torch.bfloat16):
            try:
                samples = list(itertools.islice(info.sample_inputs("cpu", dtype), 2))
            except Exception:  # no sample can be made on a CPU
                continue
            error = ""
            for sample in samples:
                there = sample.transform(moved)
                try:
                    info(there.input, *there.args, **there.kwargs)
                except Exception as raised:
                    error = f"{type(raised).__name__}: {raised}"[:200]
                    break
            count += 1
            if (not error) != (dtype in supported):
                differences.append([full_name(info), str(dtype), dtype in supported, error])
    print(json.dumps({"count": count, "differences": differences}))


if __name__ == "__main__":
    main()
