"""`amp-migrate verify` from the command line: exit codes, JSON by the contract, and what is told
when it fails.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from amp_migrate.cli import cli
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.report import Options, Program
from amp_migrate.runtime.supervise import Limits, Supervisor
from amp_migrate.runtime.verify import Verifier, verify
from tests.runtime.programs import AFTER, BEFORE, edited

SQUARE = """\
class Square(torch.nn.Module):
    def forward(self, x):
        x = x * 3000
        return x * x / 9e6


"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(BEFORE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["verify", "--device", "cpu", *arguments], standalone_mode=False)


def test_the_migrated_program_passes_and_the_json_keeps_the_contract(project: Path) -> None:
    done = invoke(
        "--steps", "8", "--json", "result.json", "--html", "page.html", "--scratch", "train.py"
    )
    assert done.return_value == 0, done.output
    assert re.search(r"^PASS: \d+ passed, 2 skipped$", done.output, re.MULTILINE)
    assert done.stderr.startswith("amp-migrate: reading train.py\n")
    found = json.loads((project / "result.json").read_text(encoding="utf-8"))
    assert (found["version"], found["verdict"]) == (1, "pass")
    assert {tuple(check) for check in found["checks"]} == {
        ("name", "verdict", "measured", "limit", "message")
    }
    assert {check["verdict"] for check in found["checks"]} == {"pass", "skip"}
    assert set(found["runs"]) >= {"original", "amp-off", "amp"}
    run: dict[str, Any] = found["runs"]["amp"]
    assert (run["device"], run["dtype"]) == ("cpu", "float16")
    assert len(run["losses"]) == 8
    assert isinstance(run["skipped_steps"], int)
    assert run["peak_memory_bytes"] > 0
    assert "steps_per_second" in run
    assert sorted(path.name for path in project.iterdir()) == [
        "page.html",
        "result.json",
        "train.py",
    ]
    assert "<svg" in (project / "page.html").read_text(encoding="utf-8")


def test_a_hand_edited_program_fails_with_exit_code_1(project: Path) -> None:
    other = project / "edited.py"
    other.write_text(
        edited(AFTER, ("scaler.step(optimizer)", "optimizer.step()")), encoding="utf-8"
    )
    done = invoke("--steps", "6", "--against", "edited.py", "--json", "-", "train.py")
    assert done.return_value == 1
    found = json.loads(done.stdout)
    assert "amp: protocol" in [
        check["name"] for check in found["checks"] if check["verdict"] == "fail"
    ]
    assert (
        "the program itself wrote checkpoint.pt here; --scratch has it write into copies"
        in found["notes"]
    )
    line = other.read_text(encoding="utf-8").splitlines().index("            optimizer.step()") + 1
    protocol = next(check for check in found["checks"] if check["name"] == "amp: protocol")
    assert f"(edited.py:{line}, " in protocol["message"]


def test_a_program_without_a_loop_cannot_be_compared(project: Path) -> None:
    (project / "train.py").write_text("print('no loop')\n", encoding="utf-8")
    done = invoke("train.py")
    assert done.return_value == 1
    assert "no loop of the program is migrated" in done.output


def test_a_limit_is_an_option(project: Path) -> None:
    done = invoke("--steps", "6", "--first-loss", "0", "--scratch", "train.py")
    assert done.return_value == 1
    assert "fail  amp: first loss" in done.output


def test_the_module_that_overflows_is_named_and_the_advice_is_tried(project: Path) -> None:
    text = edited(BEFORE, ("model = ", SQUARE + "model = "), ("torch.nn.ReLU()", "Square()"))
    (project / "train.py").write_text(text, encoding="utf-8")
    done = invoke("--steps", "8", "--bisect", "--patch", "fix.patch", "--scratch", "train.py")
    assert done.return_value == 1
    assert (
        "advice: module 1 (Square) first returned inf or NaN, as float16, at step 1" in done.output
    )
    assert "advice: tried: 1 in float32 passes" in done.output
    patch = (project / "fix.patch").read_text(encoding="utf-8")
    assert (
        '+        with torch.autocast("cuda", enabled=False):\n+            x = x.float()\n'
        in patch
    )
    subprocess.run(["git", "apply", "fix.patch"], cwd=project, check=True)
    (project / "fixed.py").write_bytes((project / "train.py").read_bytes())
    (project / "train.py").write_text(text, encoding="utf-8")
    done = invoke("--steps", "8", "--scratch", "--against", "fixed.py", "train.py")
    assert done.return_value == 0, done.output


def test_what_passes_is_written_as_a_patch_and_what_fails_is_not(project: Path) -> None:
    done = invoke("--steps", "4", "--quick", "--patch", "fix.patch", "--scratch", "train.py")
    assert done.return_value == 0, done.output
    subprocess.run(["git", "apply", "fix.patch"], cwd=project, check=True)
    assert "scaler.scale(loss).backward()" in (project / "train.py").read_text(encoding="utf-8")
    (project / "train.py").write_text(BEFORE, encoding="utf-8")
    (project / "wrong.py").write_text(
        edited(AFTER, ("scaler.step(optimizer)", "optimizer.step()")), encoding="utf-8"
    )
    words = ["--steps", "4", "--quick", "--against", "wrong.py", "--patch", "no.patch"]
    done = invoke(*words, "--scratch", "train.py")
    assert "nothing passed, so no.patch was not written" in done.output
    assert not (project / "no.patch").exists()


NORM = """\
class Norm(torch.nn.Module):
    def forward(self, x):
        return x / (x.abs().mean(-1, keepdim=True) + 1e-8)


"""


def test_an_eps_that_float16_rounds_to_zero_is_named(project: Path) -> None:
    """Rows of zeros, which a ReLU makes, are 0 / 0 then."""
    norm = ("torch.nn.ReLU()", "torch.nn.ReLU(), Norm()")
    text = edited(BEFORE, ("model = ", NORM + "model = "), norm)
    text = edited(
        text,
        (
            "data = torch.randn(64, 8)",
            "data = torch.randn(64, 8) * (torch.arange(64) % 8 > 0)[:, None]",
        ),
    )
    text = edited(text, ("torch.nn.Linear(8, 32)", "torch.nn.Linear(8, 32, bias=False)"))
    (project / "train.py").write_text(text, encoding="utf-8")
    other = edited(
        AFTER,
        ("model = ", NORM + "model = "),
        norm,
        ("torch.nn.Linear(8, 32)", "torch.nn.Linear(8, 32, bias=False)"),
    )
    other = edited(
        other,
        (
            "data = torch.randn(64, 8)",
            "data = torch.randn(64, 8) * (torch.arange(64) % 8 > 0)[:, None]",
        ),
    )
    (project / "other.py").write_text(other, encoding="utf-8")
    done = invoke("--steps", "4", "--scratch", "--no-drills", "--against", "other.py", "train.py")
    assert done.return_value == 1
    line = (
        other.splitlines().index("        return x / (x.abs().mean(-1, keepdim=True) + 1e-8)") + 1
    )
    assert "advice: module 2 guards with 1e-08 (" in done.output
    assert "advice: none of this was tried; --bisect tries it" in done.output
    assert (
        f"(other.py:{line}), which float16 rounds to zero; use an eps of 1e-6 or more"
        in done.output
    )


def test_an_interruption_keeps_what_was_measured(project: Path) -> None:
    def interrupt(job: Job, state: Mapping[str, float]) -> None:
        if job.name == "amp-off":
            raise KeyboardInterrupt

    script = str(project / "train.py")
    program = Program(script, (), False, {"float16": {script: AFTER}}, project)
    report = verify(program, Options(steps=4, scratch=True), interrupt).report
    assert report.interrupted
    assert report.verdict == "fail"
    told = [check.name for check in report.checks]
    assert told == ["original: run", "original-again: run", "reproducible", "complete"]


def test_quick_makes_three_runs_and_says_what_they_will_cost(project: Path) -> None:
    done = invoke("--steps", "8", "--quick", "--json", "result.json", "--scratch", "train.py")
    assert done.return_value == 0, done.output
    found = json.loads((project / "result.json").read_text(encoding="utf-8"))
    assert set(found["runs"]) <= {"original", "amp-off", "amp", "float32-as-amp"}
    assert not [check for check in found["checks"] if "gradients" in check["name"]]
    assert "about 2 runs to go" in done.stderr


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "about 6 runs to go, 12 to 24 s"),
        ({"metric": "accuracy"}, "24 s, and then 6 of the whole program"),
        ({"metric": "accuracy", "metric_seeds": 5, "resume": ""}, "and then 14 of the whole"),
    ],
)
def test_the_cost_is_told_with_the_runs_to_the_end(
    changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    heard: list[str] = []
    program = Program("train.py", (), False, {"float16": {}}, tmp_path)
    supervisor = Supervisor(Limits(), 0, "cpu", lambda job, state: None)
    Verifier(program, Options(**changes), supervisor, heard.append)._estimate(2.0)
    assert told in heard[0]


def test_quick_finds_what_is_plainly_wrong(project: Path) -> None:
    (project / "edited.py").write_text(
        edited(AFTER, ("scaler.step(optimizer)", "optimizer.step()")), encoding="utf-8"
    )
    done = invoke("--steps", "6", "--quick", "--scratch", "--against", "edited.py", "train.py")
    assert done.return_value == 1, done.output
    assert "bare-step-after-unscale" in done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--epochs", "2"], "--epochs is about the number that --metric NAME names"),
        (["--metric-seeds", "4"], "--metric-seeds is about the number"),
        (["--quick", "--bisect"], "--quick looks for nothing"),
        (["--json", "nowhere/result.json"], "there is no folder"),
        (["--html", "nowhere/page.html"], "there is no folder"),
        (["--patch", "nowhere/amp.patch"], "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_told_before_the_runs(
    words: list[str], told: str, project: Path
) -> None:
    result = CliRunner().invoke(cli, ["verify", *words, "train.py"])
    assert result.exit_code == 2
    assert told in result.output
    assert "reading" not in result.output


def test_a_gpu_that_is_not_there_is_told_before_the_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = CliRunner().invoke(cli, ["verify", "--device", "cuda", "train.py"])
    assert result.exit_code == 2
    assert "torch sees no GPU here" in result.output
    assert "running" not in result.output


def test_torch_is_imported_by_the_runs_alone() -> None:
    code = (
        "import sys; from amp_migrate.runtime.needs import device_of; "
        "print(device_of('cpu'), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "cpu False\n"
