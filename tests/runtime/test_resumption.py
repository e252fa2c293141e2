"""A run that is stopped after a checkpoint and goes on is the run that was not stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.runtime.check import Check
from amp_migrate.runtime.report import Options, Program
from amp_migrate.runtime.resumption import Resumed, _checks
from amp_migrate.runtime.supervise import Supervisor
from amp_migrate.runtime.trace import Trace
from amp_migrate.runtime.verify import Verifier
from tests.runtime.programs import AFTER, BEFORE, edited

LOADS = """\
    import os
    start = 0
    if os.path.exists("checkpoint.pt"):
        state = torch.load("checkpoint.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start = state["epoch"]
"""
SCALER = '        scaler.load_state_dict(state["scaler"])\n'
SAVES = (
    '"optimizer": optimizer.state_dict()',
    '"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "epoch": epoch + 1',
)


def resuming(text: str, loads: str) -> str:
    loop = "    for epoch in range(6):"
    return edited(text, (loop, f"{loads}    for epoch in range(start, 6):"), SAVES)


def checks(before: str, after: str, supervisor: Supervisor, folder: Path) -> dict[str, Check]:
    script = folder / "train.py"
    script.write_text(before, encoding="utf-8")
    program = Program("train.py", (), False, {"float16": {str(script.resolve()): after}}, folder)
    options = Options(steps=2, quick=True, drills=False, diagnose=False, scratch=True, resume="")
    report = Verifier(program, options, supervisor).run()
    assert not (folder / "checkpoint.pt").exists()
    return {check.name: check for check in report.checks if "resume" in check.name}


@pytest.mark.parametrize("keeps", [True, False])
def test_the_scaler_must_come_back(keeps: bool, supervisor: Supervisor, tmp_path: Path) -> None:
    after = resuming(AFTER, LOADS + SCALER * keeps)
    found = checks(resuming(BEFORE, LOADS), after, supervisor, tmp_path)
    assert set(found) == {"amp: resumed scaler", "amp: resume"}
    scaler = found["amp: resumed scaler"]
    if keeps:
        assert {check.verdict for check in found.values()} == {"pass"}
        assert "bit for bit" in found["amp: resume"].message
        assert "goes on where it was, at a scale of" in scaler.message
    else:
        assert scaler.verdict == "fail"
        assert "and is 65536 after 0; is its state saved and loaded?" in scaler.message


def test_a_program_that_begins_anew_is_told(supervisor: Supervisor, tmp_path: Path) -> None:
    found = checks(BEFORE, AFTER, supervisor, tmp_path)
    assert "do the arguments of --resume have it go on?" in found["amp: resume"].message


def run(losses: list[float], digest: str = "a", scale: float = 8.0, count: int = 2) -> Trace:
    return Trace(
        losses=losses, parameter_digests=[digest], optimizers=[0] * count, scales=[scale] * count,
        trackers=[1.0] * count,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("original", "amp", "verdict"),
    [
        (run([1.0, 2.0]), run([1.0, 2.0]), "pass"),
        (run([1.0, 2.0]), run([1.0, 2.1]), "fail"),
        (run([1.0, 2.0]), run([1.0, 2.0], "b"), "fail"),
        (run([1.0, 2.1]), run([1.0, 2.2]), "pass"),
        (run([1.0, 2.1]), run([1.0, 4.0]), "fail"),
    ],
)
def test_it_is_as_exact_as_without_amp(original: Trace, amp: Trace, verdict: str) -> None:
    whole = run([3.0, 3.0, 1.0, 2.0], count=4)
    pairs = [Resumed(whole, again, (2, 2)) for again in (original, amp)]
    found = [*_checks("amp: resume", *pairs, floor=0.05)]
    assert [check.verdict for check in found] == ["pass", verdict]
