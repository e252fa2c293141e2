"""Run torch's own operator samples on fake CUDA tensors under CUDA's real autocast; print the dtypes.

A program of its own: what it does to torch's state stays here. Fake tensors reach the kernels of
the `AutocastCUDA` dispatch key without a GPU, which is what the policies of the rows are held to.
"""

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
common_cuda.SM53OrLater = common_cuda.SM80OrLater = True  # type: ignore[assignment]

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

HALF, FLOAT = torch.float16, torch.float32


def main() -> None:
    """Print a dictionary: operator -> its kernels, and the dtypes it gives."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for info in op_db:
        name = f"{info.name}/{info.variant_test_name}" if info.variant_test_name else info.name
        found[name] = {**kernels(info), **results(info)}
    json.dump(found, sys.stdout)


def kernels(info: Any) -> dict[str, bool]:
    forward, backward = info.supported_dtypes("cuda"), info.supported_backward_dtypes("cuda")
    return {
        "float": FLOAT in forward,
        "half": HALF in forward,
        "bfloat16": torch.bfloat16 in forward,
        "float_backward": FLOAT in backward,
        "half_backward": HALF in backward,
    }


def results(info: Any) -> dict[str, Any]:
    try:
        sample = next(iter(info.sample_inputs("cpu", FLOAT)))
    except Exception:
        return {}
    return {
        "from_half": result(info, sample, HALF),
        "from_float": result(info, sample, FLOAT),
    }


def result(info: Any, sample: Any, dtype: torch.dtype) -> str | None:
    """The dtype of the first tensor that comes out; None if there is none on a fake device."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", HALF)
        try:
            given, arguments, keywords = faked((sample.input, sample.args, sample.kwargs), dtype)
            out = info.op(given, *arguments, **keywords)
        except Exception as error:
            return "banned" if "unsafe to autocast" in str(error) else None
        finally:
            torch.set_autocast_enabled("cuda", False)
    while isinstance(out, (list, tuple)) and out:
        out = out[0]
    return str(out.dtype).removeprefix("torch.") if isinstance(out, torch.Tensor) else None


def faked(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        kept = value.dtype if not value.is_floating_point() else dtype
        return torch.empty_strided(value.shape, value.stride(), dtype=kept, device="cuda")
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(faked(item, dtype) for item in value)
    if isinstance(value, dict):
        return {key: faked(item, dtype) for key, item in value.items()}
    return torch.device("cuda") if isinstance(value, torch.device) else value


if __name__ == "__main__":
    main()
