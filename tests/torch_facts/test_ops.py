"""The rows about operators, held against the torch that is installed."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops import Kernels, Op

PRESENT = [row for row in ops.ROWS if not row.removed]
SAMPLER = Path(__file__).parent / "on_fake_cuda.py"
# Forms that differ from the rest of their row, all of them without consequence.
OTHER = {
    "ldexp",  # decomposed for fake tensors before autocast sees its parts
    "nn.functional.interpolate/area",  # average pooling; the other modes are float32
    "norm/nuc",  # without a kernel, but autocast hands it float32
}


def resolve(dotted: str) -> Any:
    return functools.reduce(getattr, dotted.split(".")[1:], torch)


@pytest.fixture(scope="module")
def database() -> dict[str, dict[str, Any]]:
    """What torch's operator database, and fake CUDA tensors under autocast, say."""
    done = subprocess.run(
        [sys.executable, str(SAMPLER)], capture_output=True, text=True, check=True, timeout=300
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def row_of(name: str) -> Op | None:
    """The row of an operator of the database."""
    plain = name.partition("/")[0]
    spelling = ops.function(f"torch.{plain}") or ops.method(plain)
    return None if spelling is None else spelling.op


def test_every_spelling_exists() -> None:
    for row in PRESENT:
        for function in row.functions:
            assert callable(resolve(function)), function
        for method in row.methods:
            assert hasattr(torch.Tensor, method), (row.name, method)


def test_removed_operators_are_gone() -> None:
    removed = [row for row in ops.ROWS if row.removed]
    assert removed
    for row in removed:
        with pytest.raises((RuntimeError, AttributeError, TypeError)):
            resolve(row.functions[0])(*[torch.eye(2)] * (2 if row.tensors == (0, 1) else 1))


def test_no_spelling_stands_twice() -> None:
    for spellings in ("functions", "methods"):
        counted = Counter(name for row in ops.ROWS for name in getattr(row, spellings))
        assert [name for name, times in counted.items() if times > 1] == []


def test_what_picks_gives_values_of_its_operands() -> None:
    rows = [row for row in PRESENT if row.traits & ops.Trait.PICKS]
    assert rows
    given = [torch.tensor([3.0, -1.0, 8.0]), torch.tensor([2.0, 5.0, 7.0])]
    for row in rows:
        held = given[: len(row.tensors)]
        made = torch.as_tensor(resolve(row.functions[0])(*held)).flatten()
        assert torch.isin(made, torch.stack(held)).all(), row.name


def test_the_widest_dtype_wins() -> None:
    rows = [row for row in PRESENT if row.traits & ops.Trait.WIDEST]
    assert rows
    for row in rows:
        for half, whole in ((0, 0), (1, 1)) if row.name != "cat" else ((1, 1),):
            given = [torch.zeros([2] * half).half(), torch.zeros([2] * whole)]
            assert resolve(row.functions[0])(given).dtype == torch.float32, row.name


def test_dispatcher_knows_the_same_operators() -> None:
    names = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    registered = {name.removeprefix("aten::").partition(".")[0] for name in names}
    listed = {name for row in ops.ROWS if row.policy != "keeps" for name in row.dispatcher_names}
    in_builds_with_cuda = set() if torch.backends.cuda.is_built() else {"_cudnn_rnn"}
    assert listed == registered | in_builds_with_cuda


def test_a_row_that_keeps_is_not_registered() -> None:
    names = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    registered = {name.removeprefix("aten::").partition(".")[0] for name in names}
    keeping = {name for row in ops.ROWS if row.policy == "keeps" for name in row.dispatcher_names}
    assert not keeping & registered


def expected(row: Op, given: str) -> str | None:
    """The dtype of what a row gives from operands of one dtype; None where it depends."""
    if row.policy == "banned":
        return "banned"
    if row.result in ("same", "tuple", "values", "like", "real"):
        by_policy = {"lower": "float16", "fp32": "float32"}
        return by_policy.get(row.policy, given)
    by_result = {"float32": "float32", "double": "float64", "bool": "bool"}
    return by_result.get(row.result)


def test_policies_are_those_of_the_fake_device(database: dict[str, dict[str, Any]]) -> None:
    differences, seen = [], 0
    for name, facts in database.items():
        row = row_of(name)
        if row is None or row.always_breaks or name in OTHER or "dtype" in name:
            continue
        for key, given in (("from_half", "float16"), ("from_float", "float32")):
            wanted, got = expected(row, given), facts.get(key)
            if wanted is not None and got is not None:
                seen += 1
                if wanted != got:
                    differences.append((name, key, wanted, got))
    assert differences == []
    assert seen > 700


def test_kernels_are_those_of_the_database(database: dict[str, dict[str, Any]]) -> None:
    differences, seen = [], 0
    for name, facts in database.items():
        row = row_of(name)
        if row is None or row.always_breaks or name in OTHER or not facts["float"]:
            continue
        seen += 1
        claimed = {
            "half": Kernels.HALF in row.kernels,
            "bfloat16": Kernels.BFLOAT16 in row.kernels,
            "half_backward": Kernels.HALF_BACKWARD in row.kernels,
        }
        if not facts["float_backward"]:
            del claimed["half_backward"]
        wrong = {key: value for key, value in claimed.items() if facts[key] is not value}
        if wrong:
            differences.append((name, wrong))
    assert differences == []
    assert seen > 500


def test_a_window_of_float32_makes_float32() -> None:
    windowed = [row for row in ops.ROWS if ops.Trait.WINDOWED in row.traits]
    assert [row.name for row in windowed] == ["stft"]
    half, window = torch.randn(64).half(), torch.hann_window(16)
    assert torch.stft(half, 16, window=window, return_complex=True).dtype == torch.complex64
