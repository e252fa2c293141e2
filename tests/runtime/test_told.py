"""What a person is told: the lines of the file that they named, a failing program's own words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amp_migrate.runtime.command import lines
from amp_migrate.runtime.endings import completed
from amp_migrate.runtime.page import page
from amp_migrate.runtime.report import Options, Program, counted
from amp_migrate.runtime.runner import Runner
from amp_migrate.runtime.supervise import Supervisor
from amp_migrate.runtime.trace import Trace
from amp_migrate.runtime.verify import Verifier
from tests.runtime.programs import AFTER, BEFORE, edited


def test_an_error_in_the_other_file_is_told_with_its_line_and_traceback(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """The line that raises stands below some that the original does not have."""
    text = edited(AFTER, ("            scaler.update()\n", "            scaler.update(oops)\n"))
    script, other = tmp_path / "train.py", tmp_path / "edited.py"
    script.write_text(BEFORE, encoding="utf-8")
    other.write_text(text, encoding="utf-8")
    real = str(script.resolve())
    program = Program(
        "train.py", (), False, {"float16": {real: text}}, tmp_path, shown={real: "edited.py"}
    )
    options = Options(steps=2, quick=True, drills=False, diagnose=False, scratch=True)
    report = Verifier(program, options, supervisor).run()
    said = "\n".join(lines(report))
    line = text.splitlines().index("            scaler.update(oops)") + 1
    assert f"raised an error at edited.py:{line}: NameError" in said
    assert "what amp-off said last:\n    Traceback (most recent call last):" in said
    assert f'File "edited.py", line {line}, in train' in said
    assert said.count("Traceback") == 1
    assert "What amp-off said last</h2>" in page(report, program)
    assert report.runs["amp-off"].loss_sites == report.runs["original"].loss_sites[:1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import argparse; argparse.ArgumentParser('prog').parse_args()", "usage: prog [-h]"),
        ("input('name? ')", "a program under verify has no standard input"),
    ],
)
def test_usage_and_a_closed_standard_input_are_told(
    line: str, words: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(f"{line}\n{BEFORE}", encoding="utf-8")
    program = Program("train.py", ("--unknown",), False, {"float16": {}}, tmp_path)
    report = Verifier(program, Options(steps=2, quick=True), supervisor).run()
    assert words in "\n".join(lines(report))
    assert "train.py:1: " in report.checks[0].message  # and no line of Python's own modules
    assert counted(report) == "1 failed"


SPARSE = """\
import torch
rows = torch.nn.Embedding(9, 4, sparse=True).cuda()
optimizer = torch.optim.SGD(rows.parameters(), lr=0.1)
for step in range(3):
    rows(torch.arange(9).cuda()).square().mean().backward()
    optimizer.step()
"""


def test_a_fault_of_the_simulated_gpu_is_told_as_one(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SPARSE, encoding="utf-8")
    program = Program("train.py", (), False, {"float16": {}}, tmp_path)
    report = Verifier(program, Options(steps=2, quick=True), supervisor).run()
    assert "the simulated GPU has no sparse tensors" in report.checks[0].message


def test_steps_by_hand_are_not_counted(supervisor: Supervisor, tmp_path: Path) -> None:
    text = "import torch\nw = torch.ones(2, requires_grad=True)\n(w * w).sum().backward()\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    program = Program("train.py", (), False, {"float16": {}}, tmp_path)
    report = Verifier(program, Options(steps=2, quick=True), supervisor).run()
    assert "counted are the steps of torch.optim's optimizers" in report.checks[0].message


@pytest.mark.parametrize(
    ("scratch", "words"),
    [
        (False, "the program itself wrote new here"),
        (True, "new changed here, and the program ran in copies"),
    ],
)
def test_new_files_are_told(scratch: bool, words: str, tmp_path: Path) -> None:
    program = Program("train.py", (), False, {}, tmp_path)
    runner = Runner(program, Options(scratch=scratch), None, tmp_path / "runs")  # type: ignore[arg-type]
    notes: list[str] = []
    with runner.telling_written(notes):
        (tmp_path / "new").write_text("x", encoding="utf-8")
    assert notes[0].startswith(words)


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("original-again", "ValueError: no", True),
        ("amp-off", "FileExistsError: [Errno 17] File exists: 'runs'", True),
        ("amp", "ValueError: no", False),
    ],
)
def test_what_the_first_run_has_left_may_be_in_the_way(name: str, error: str, told: bool) -> None:
    raised = Trace(status="raised", error=f"Traceback\n{error}", raised_at="train.py:3")
    [check] = completed(name, raised, Trace(status="stopped"))
    assert ("may be in the way: --scratch" in check.message) == told
    [first] = completed("original", raised, None)
    assert "--scratch" not in first.message


@pytest.mark.parametrize(
    ("code", "said"), [("0", "pass"), ("3", "raised an error at train.py:{}: SystemExit: 3")]
)
def test_a_program_that_leaves_by_the_system_has_come_to_its_end(
    code: str, said: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    text = f"{BEFORE}\nimport os\nos._exit({code})\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    program = Program("train.py", (), False, {"float16": {}}, tmp_path)
    report = Verifier(program, Options(steps=500, quick=True), supervisor).run()
    first = report.checks[0]
    line = len(text.splitlines())
    assert (first.verdict == said) or (said.format(line) in first.message), first


FIRST = """\
import sys


class Torch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("torch is imported", file=sys.stderr)
            raise SystemExit(7)


from importlib import util

find = util.find_spec
util.find_spec = lambda name, package=None: sys if name == "torch" else find(name, package)
sys.meta_path.insert(0, Torch())
from amp_migrate.cli import cli

cli(["verify", "train.py"])
"""


def test_the_first_word_comes_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BEFORE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", FIRST], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    told = done.stderr.splitlines()
    assert (told[0], told[-1]) == ("amp-migrate: reading train.py", "torch is imported")
    assert done.returncode == 7
