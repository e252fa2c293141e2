"""Processes that a program starts: those that may train are named, others are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amp_migrate.runtime.endings import completed, not_verified
from amp_migrate.runtime.trace import Trace

ROOT = Path(__file__).parents[2]
SCRIPT = """\
import os, subprocess, sys
from amp_migrate.runtime.spawned import note_trainers
found = note_trainers({ours!r})
{line}
print(found)
"""


def noted(line: str, tmp_path: Path) -> str:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT.format(ours=str(ROOT / "amp_migrate"), line=line), encoding="utf-8")
    command = [sys.executable, str(file)]
    done = subprocess.run(
        command, cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].replace(str(tmp_path), ".")


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run([sys.executable, '-c', 'pass'])",
        "os.system('python3 -c pass')",
        "if not os.fork(): os._exit(0)",
        "os.posix_spawn(sys.executable, ['python3', '-c', 'pass'], {})",
    ],
)
def test_a_program_of_its_own_is_named_by_its_line(line: str, tmp_path: Path) -> None:
    assert noted(line, tmp_path) == "['./train.py:4']"


@pytest.mark.parametrize("line", ["subprocess.run(['true'])", "os.system('echo python')", "pass"])
def test_other_commands_are_not(line: str, tmp_path: Path) -> None:
    assert noted(line, tmp_path) == "[]"


def trace(*processes: str, steps: int, captured: int = 0) -> Trace:
    return Trace(
        status="finished", optimizers=[0] * steps, processes=list(processes), captured=captured
    )


def test_a_program_that_trains_elsewhere_is_refused_and_one_that_also_does_is_noted() -> None:
    (check,) = completed("original", trace("train.py:3", "train.py:3", steps=0), None)
    assert check.verdict == "fail"
    assert "it started 2 processes itself, at train.py:3, and only" in check.message
    (check,) = completed("original", trace("train.py:3", steps=4), None)
    assert check.verdict == "pass"
    told = list(not_verified(trace("train.py:3", steps=4)))
    assert told == ["not verified: 1 processes that the program starts at train.py:3"]
    assert not list(not_verified(trace(steps=4)))


def test_what_is_captured_in_a_graph_is_left_alone() -> None:
    (note,) = not_verified(trace(steps=4, captured=1))
    assert "CUDA graphs" in note
    (check,) = completed("original", trace(steps=0, captured=1), None)
    assert "verify the program without graphs" in check.message
