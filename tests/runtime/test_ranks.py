"""Several processes: a program that is right on rank 0 alone is not right."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from amp_migrate.runtime.check import Check
from amp_migrate.runtime.ranks import agree, merged
from amp_migrate.runtime.report import Options, Program
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.supervise import Limits, Supervisor
from amp_migrate.runtime.trace import Trace
from amp_migrate.runtime.verify import Verifier
from tests.runtime.conftest import failed, quiet
from tests.runtime.programs import DDP, edited

AFTER = edited(
    DDP,
    (
        "lr=0.1)\n",
        (
            'lr=0.1)\n    scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda", '
            "init_scale=1024.0)\n"
        ),
    ),
    (
        "        output = model",
        (
            '        with torch.autocast("cuda", torch.float16, scaler.is_enabled()):\n          '
            "output = model"
        ),
    ),
    ("        loss = torch", "          loss = torch"),
    ("loss.backward()", "scaler.scale(loss).backward()"),
    ("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()"),
)


def run(*traces: dict[str, object]) -> list[Runs]:
    plain = {
        "optimizers": [0] * 3,
        "taken": [True] * 3,
        "scales": [8.0] * 3,
        "parameter_digests": ["a", "b"],
    }
    return [
        Runs({"original": Trace(**plain), "amp": Trace(**{**plain, **trace})}) for trace in traces
    ]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "word"),
    [
        ({}, "end with the same parameters"),
        ({"taken": [True, False, True]}, "rank 1 skips other steps"),
        ({"scales": [8.0, 8.0, 4.0]}, "rank 1 skips other steps or has another scale"),
        ({"parameter_digests": ["a", "c"]}, "the parameters of rank 1 are not those of rank 0"),
    ],
)
def test_ranks_skip_together_and_keep_the_same_parameters(
    other: dict[str, object], word: str
) -> None:
    check = agree("amp", run({}, other))
    assert word in check.message
    assert check.verdict == ("pass" if "same parameters" in word else "fail")


def test_ranks_that_train_apart_in_the_original_may_do_so() -> None:
    ranks = run({}, {"parameter_digests": ["a", "c"]})
    ranks[1].traces["original"].parameter_digests = ["x", "y"]
    assert agree("amp", ranks).verdict == "pass"


def test_the_answer_of_a_rank_that_fails_is_told() -> None:
    first = [
        Check("amp: finite", "pass", 0, 0, "fine"),
        Check("amp: gradients", "pass", 0, 1, "measured"),
    ]
    second = [
        Check("amp: finite", "fail", 1, 0, "inf"),
        Check("amp: gradients", "skip", None, None, "no gradients"),
    ]
    found = list(merged([first, second]))
    assert [(check.verdict, check.message) for check in found] == [
        ("fail", "rank 1: inf"),
        ("pass", "measured"),
    ]


GLOO_AT_EXIT = "terminate called without an active exception"
"""What C++ says where a process ends while a thread runs that nobody waits for: seen in torch's
gloo behind `destroy_process_group`, after everything was printed.
"""
NEEDS_DRIVER = pytest.mark.skipif(
    torch.backends.cuda.is_built() and not torch.cuda.is_available(),
    reason="in a build with CUDA, DistributedDataParallel's timers need its driver",
)


@NEEDS_DRIVER
def test_each_rank_keeps_its_own_seed(tmp_path: Path) -> None:
    """The runs after the first are given the seeds of that: rank 1 not those of rank 0."""
    script = tmp_path / "train.py"
    script.write_text(DDP, encoding="utf-8")
    rewrites = {"float16": {os.path.realpath(script): AFTER}}
    program = Program(str(script), (), False, rewrites, tmp_path)
    with Supervisor(Limits(timeout=120, processes=2), 0, "cpu", quiet) as supervisor:
        report = Verifier(program, Options(steps=2, processes=2, quick=True), supervisor).run()
    found = {check.name: check.message for check in report.checks}
    assert found["amp-off: losses"].endswith("bit for bit")
    assert report.seeds("amp") == ((0, 0), (0, 1))


@NEEDS_DRIVER
def test_a_rewrite_that_is_wrong_on_rank_1_alone_fails(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DDP, encoding="utf-8")
    wrong = edited(AFTER, ("y.to(device))", "y.to(device)) * (1 + rank)"))
    script = tmp_path / "train.py"
    program = Program(
        str(script), (), False, {"float16": {os.path.realpath(script): wrong}}, tmp_path
    )
    with Supervisor(Limits(timeout=120, processes=2), 0, "cpu", quiet) as supervisor:
        options = Options(steps=1, processes=2, drills=False, diagnose=False)
        report = Verifier(program, options, supervisor).run()
    found = {check.name: check for check in report.checks}
    assert {"amp-off: losses", "amp: loss curve"} <= failed(report)
    assert found["amp-off: losses"].message.startswith("rank 1: ")
    assert (
        found["original: ranks agree"].message
        == "2 processes skip the same steps and end with the same parameters"
    )
    assert found["amp: ranks agree"].verdict == "pass", found["amp: ranks agree"]
    assert found["amp: protocol"].verdict == "pass"
    both = report.as_json()["runs"]["original"]["ranks"]
    assert len(both) == 2
    assert both[0]["losses"] != both[1]["losses"]


def test_run_under_torchrun(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DDP, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "OMP_NUM_THREADS": "1",
    }
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        *("--log-dir", str(tmp_path / "logs"), "--redirects", "1"),
    ]
    for _ in range(3):
        shutil.rmtree(tmp_path / "logs", ignore_errors=True)
        done = subprocess.run(
            [*launcher, "-m", "amp_migrate", "run", "train.py"], cwd=tmp_path, env=environment, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
        if GLOO_AT_EXIT not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    printed = sorted(file.read_text().strip() for file in tmp_path.glob("logs/**/stdout.log"))
    assert printed == ["rank 0 True", "rank 1 True"]
    assert done.stderr.count("train.py:20 in main") == 1, done.stderr
