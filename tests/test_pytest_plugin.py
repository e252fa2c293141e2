"""The fixture `amp_verify` in a test run of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amp_migrate.pytest_plugin import _words
from tests.runtime.programs import BEFORE

ROOT = Path(__file__).parents[1]
TEST = """\
def test_amp(amp_verify):
    report = amp_verify("train.py", [{argument}], device="cpu", steps=4, quick=True, scratch=True)
    assert report.verdict == "pass"
"""


def ran(folder: Path, program: str, argument: str = "") -> str:
    (folder / "train.py").write_text(program, encoding="utf-8")
    (folder / "test_it.py").write_text(TEST.format(argument=argument), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "test_it.py",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_program_that_passes(tmp_path: Path) -> None:
    assert "1 passed" in ran(tmp_path, BEFORE)


def test_a_program_that_fails_is_told_by_its_checks_alone(tmp_path: Path) -> None:
    said = ran(tmp_path, BEFORE.replace("model(x.to(device))", "model(x.to(device) * 1e6)"), "'a'")
    assert "1 failed" in said
    assert "amp-migrate verify train.py a\n" in said
    assert "fail  amp: " in said
    assert "pass  original: run" not in said
    assert "pytest_plugin.py" not in said.split("short test summary")[0]


def test_nothing_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, amp_migrate.pytest_plugin; "
        "print([m for m in ('torch', 'libcst', 'click', 'amp_migrate.cli') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 20, "quick": True}, ["--steps", "20", "--quick", "train.py", "-x"]),
        ({"program_device": "cuda"}, ["--program-device", "cuda", "train.py", "-x"]),
        ({"as_module": True, "scratch": False}, ["-m", "train.py", "-x"]),
        ({"timeout": None}, ["train.py", "-x"]),
    ],
)
def test_keywords_are_options(options: dict[str, object], words: list[str]) -> None:
    assert _words("train.py", ["-x"], options) == words
