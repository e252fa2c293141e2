"""The harness sees what it is there to see: each program here is wrong in one way."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.worker import Mode, Trace, Worker

HEAD = """
import torch
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")
criterion = torch.nn.MSELoss()
x, y = torch.randn(8, 4, device=device), torch.zeros(8, 1, device=device)
"""

RIGHT = """
for _ in range(3):
    with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
        loss = 0.1 * criterion(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    print([p.grad.norm() for p in model.parameters()])
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with closing(Worker()) as process:
        yield process


def run(worker: Worker, folder: Path, body: str, mode: Mode = "on") -> Trace:
    program = folder / "after.py"
    program.write_text(HEAD + textwrap.dedent(body), encoding="utf-8")
    return worker.run(program, mode)


def test_a_right_program_breaks_nothing(worker: Worker, tmp_path: Path) -> None:
    trace = run(worker, tmp_path, RIGHT)
    assert (trace.error, trace.violations, trace.autocast_dtypes) == (None, [], ["float16"])
    assert (trace.steps, len(trace.losses), trace.scales) == (3, 3, [65536.0])


def test_without_an_accelerator_nothing_is_scaled(worker: Worker, tmp_path: Path) -> None:
    trace = run(worker, tmp_path, RIGHT, mode="off")
    assert (trace.error, trace.violations, trace.autocast_dtypes, trace.scales) == (
        None,
        [],
        [],
        [],
    )


@pytest.mark.parametrize(
    ("old", "new", "violation"),
    [
        ("    scaler.unscale_(optimizer)\n", "", "clip_grad_norm_ of scaled gradients"),
        ("    scaler.unscale_(optimizer)\n", "", "gradient read while scaled"),
        ("scaler.step(optimizer)", "optimizer.step()", "optimizer stepped without its scaler"),
        (
            "    optimizer.zero_grad()",
            "        optimizer.zero_grad(); scaler.scale(loss).backward()",
            "backward under autocast",
        ),
        (
            "    scaler.unscale_",
            "    criterion(model(x), y).backward()\n    scaler.unscale_",
            "scaler steps on gradients of an",
        ),
    ],
)
def test_a_violation_is_told(
    worker: Worker, tmp_path: Path, old: str, new: str, violation: str
) -> None:
    assert old in RIGHT
    trace = run(worker, tmp_path, RIGHT.replace(old, new))
    assert any(found.startswith(violation) for found in trace.violations), trace


def test_gradients_that_are_cleared_are_no_violation(worker: Worker, tmp_path: Path) -> None:
    clear = "    optimizer.zero_grad()"
    assert clear in RIGHT
    before = RIGHT.replace(clear, f"    criterion(model(x), y).backward()\n{clear}")
    trace = run(worker, tmp_path, before)
    assert (trace.error, trace.violations) == (None, [])


def test_a_backward_of_several_losses_is_seen_once(worker: Worker, tmp_path: Path) -> None:
    body = RIGHT.replace(
        "scaler.scale(loss).backward()", "torch.autograd.backward(scaler.scale([loss, 0.1 * loss]))"
    )
    on, off = run(worker, tmp_path, body), run(worker, tmp_path, body, mode="off")
    assert (on.error, on.calls["scale"], on.calls["backward"], len(on.losses)) == (None, 3, 3, 6)
    assert len(off.losses) == 6


def test_bce_under_autocast_raises_as_on_cuda(worker: Worker, tmp_path: Path) -> None:
    body = RIGHT.replace("criterion(model(x), y)", "torch.nn.BCELoss()(model(x).sigmoid(), y)")
    assert "unsafe to autocast" in (run(worker, tmp_path, body).error or "")


def test_digests_tell_different_runs_apart(worker: Worker, tmp_path: Path) -> None:
    first, again = (run(worker, tmp_path, RIGHT, mode="off") for _ in range(2))
    other = run(worker, tmp_path, RIGHT.replace("model(x)", "(1 + 1e-6) * model(x)"), mode="off")
    assert (again.loss_digests, again.parameters) == (first.loss_digests, first.parameters)
    assert other.loss_digests != first.loss_digests
    assert other.parameters != first.parameters


def test_a_program_that_fails_says_how(worker: Worker, tmp_path: Path) -> None:
    assert "ZeroDivisionError" in (run(worker, tmp_path, "1 / 0").error or "")
    assert run(worker, tmp_path, "raise SystemExit(3)").error == "exit: 3"
    assert "exit status 7" in (run(worker, tmp_path, "import os; os._exit(7)").error or "")
