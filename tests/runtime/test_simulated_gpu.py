"""CUDA's autocast on the CPU: the dtypes that a GPU gives, by the lists of torch's
autocast_mode.h.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runtime.gpu_facts import REFUSED, TRUE

HALF = """linear(full)|half @ full.T|torch.einsum('ij,kj->ik', full, full)|nn.Conv2d(3, 4, 3)(image)
nn.LSTM(4, 5)(full[None])[0]|nn.GRUCell(4, 5)(full)|nn.MultiheadAttention(4, 2)(half, half, half)[0]
half.softmax(-1, dtype=torch.half)|half.mean()|half * half|half.sigmoid()
nn.BatchNorm2d(3)(image.half())|F.dropout(half)"""
FULL = """half.softmax(-1)|half.exp()|half.sum()|half.norm()|half ** 2|F.layer_norm(half, (4,))|half.cumsum(0)
F.cross_entropy(half, target)|F.mse_loss(half, full)|F.binary_cross_entropy_with_logits(half, full)
torch.cat([half, full])|F.interpolate(image.half(), scale_factor=2.0)|torch.tensordot(half, full, 2)|half + full"""


def ask(place: str, script: str = "on_simulated_gpu.py") -> Any:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).with_name(script)), place]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found() -> Any:
    return ask("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_gives_the_same_dtypes(found: Any) -> None:
    real = ask("cuda")
    assert {**real, "scaler": 0, "BCELoss": 0} == {**found, "scaler": 0, "BCELoss": 0}


def _listed(text: str) -> list[str]:
    return [expression for line in text.splitlines() for expression in line.split("|")]


@pytest.mark.parametrize("expression", _listed(HALF))
def test_half(found: Any, expression: str) -> None:
    assert found[expression] == "float16"


@pytest.mark.parametrize("expression", _listed(FULL))
def test_float32(found: Any, expression: str) -> None:
    assert found[expression] == "float32"


def test_double_is_never_cast(found: Any) -> None:
    assert found["half.double() @ full.double().T"] == "float64"


def test_bce_is_banned_as_on_a_gpu(found: Any) -> None:
    assert "unsafe to autocast" in found["BCELoss"]


def test_sums_beyond_half_overflow(found: Any) -> None:
    assert found["overflow"] == "inf"


def test_islands_and_what_is_outside_stay_float32(found: Any) -> None:
    assert (found["island"], found["outside"]) == ("float32", "float32")


def test_the_scaler_is_enabled_and_gradients_are_float32(found: Any) -> None:
    assert found["scaler"] == [True, "float32", "cuda"]


def test_the_weight_cache_serves_stale_weights_inside_a_region(found: Any) -> None:
    assert found["stale weight"] is True


@pytest.mark.slow
def test_half_kernels_are_those_that_torch_says_cuda_has() -> None:
    found = ask("cpu", "operator_samples.py")
    assert found["count"] > 1000
    assert found["differences"] == []


@pytest.mark.parametrize("name", TRUE)
def test_the_device_is_cuda_in_every_respect(found: Any, name: str) -> None:
    assert found["facts"][name] is True


@pytest.mark.parametrize(("name", "words"), REFUSED.items(), ids=REFUSED)
def test_what_a_gpu_refuses_raises(found: Any, name: str, words: str) -> None:
    assert words in found["refused"][name]


def test_a_gpu_that_is_there_is_hidden() -> None:
    """torch would keep that one's guard, and switch to its streams."""
    script = (
        "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '0';"
        "from amp_migrate.runtime import simulated_gpu; simulated_gpu.install();"
        "print([os.environ['CUDA_VISIBLE_DEVICES']])"
    )
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "['']\n"
