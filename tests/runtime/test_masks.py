"""Dropout whose mask does not depend on the precision; on the CPU, the kernel alone can be tried."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amp_migrate.runtime.job import Job
from amp_migrate.runtime.report import Options, Program
from amp_migrate.runtime.trace import Trace
from amp_migrate.runtime.verify import Verifier

PROGRAM = """\
import torch
from amp_migrate.runtime.masks import same_masks

count = same_masks("CPU")
drop = torch.ops.aten.native_dropout
found = {}
for dtype in (torch.float16, torch.float32, torch.float64):
    torch.manual_seed(0)
    value = torch.ones(400, dtype=dtype, requires_grad=True)
    output, mask = drop(value, 0.25, True)
    output.sum().backward()
    assert output.dtype is value.grad.dtype is dtype
    assert torch.equal(output != 0, mask)
    assert torch.equal(value.grad, output)
    assert 0.65 < mask.float().mean().item() < 0.85
    assert abs(output.max().item() - 4 / 3) < 1e-3
    found[dtype] = mask
assert torch.equal(found[torch.float16], found[torch.float32])
assert torch.equal(found[torch.float64], found[torch.float32])
value = torch.ones(3)
assert torch.equal(drop(value, 0.5, False)[0], value)
assert not drop(value, 1.0, True)[0].any()
assert count() == 5
query = torch.randn(1, 2, 3, 4)
F = torch.nn.functional
plain = F.scaled_dot_product_attention(query, query, query)
assert torch.allclose(plain, (query @ query.mT / 2).softmax(-1) @ query, atol=1e-6)
assert F.scaled_dot_product_attention(query, query, query, dropout_p=0.5).shape == plain.shape
enabled = []
def look(*arguments):
    enabled.append(torch._C._get_cudnn_enabled())
    return torch._C._VariableFunctions.lstm(*arguments)
import amp_migrate.runtime.masks as masks
torch._VF.lstm = masks._without_cudnn(look)
for dropout in (0.5, 0.0):
    torch.nn.LSTM(4, 4, 2, dropout=dropout)(torch.zeros(3, 1, 4))
assert enabled == [False, True]
assert torch._C._get_cudnn_enabled()
assert torch.nn.GRU(4, 4, 2, dropout=0.5)(torch.zeros(3, 1, 4))[0].shape == (3, 1, 4)
print("done")
"""


def test_the_mask_is_the_same_in_every_precision() -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr


def test_times_are_taken_again_without_it(tmp_path: Path) -> None:
    """Only where dropout ran, and with the run's own settings otherwise."""
    jobs: list[Job] = []

    class Supervised:
        def run(self, job: Job) -> list[Trace]:
            jobs.append(job)
            return [Trace(step_seconds=[2.0 if job.same_masks else 1.0], masks=int(job.same_masks))]

    verifier = Verifier(
        Program("x.py", (), False, {}, tmp_path), Options(device="cuda"), Supervised()
    )  # type: ignore[arg-type]
    verifier._folder = tmp_path
    for name in ("original", "tf32", "amp"):
        verifier._run(name, tf32=name == "tf32")
    verifier._time_again()
    runs = verifier.report.runs
    assert [runs[name].step_seconds for name in ("original", "tf32", "amp")] == [[1.0]] * 3
    assert [(job.name, job.same_masks, job.tf32) for job in jobs[3:]] == [
        ("original timed", False, False),
        ("tf32 timed", False, True),
        ("amp timed", False, False),
    ]
    runs["original"].masks = runs["tf32"].masks = runs["amp"].masks = 0
    verifier._time_again()
    assert len(jobs) == 6


def test_on_a_gpu_gradients_are_held_against_float32_without_tf32(tmp_path: Path) -> None:
    class Supervised:
        def run(self, job: Job) -> list[Trace]:
            return [Trace(optimizers=[0], losses=[float(job.exact)])]

    for device, losses, single in (
        ("cuda", [1.0], "float32 gradients"),
        ("cpu", [0.0], "original"),
    ):
        verifier = Verifier(
            Program("x.py", (), False, {}, tmp_path), Options(device=device), Supervised()
        )  # type: ignore[arg-type]
        verifier._runner._folder = tmp_path
        verifier._run("original")
        assert verifier._gradients._exact().losses == losses
        assert verifier._gradients._truth() == tmp_path / single.replace(" ", "-") / "rank0"
