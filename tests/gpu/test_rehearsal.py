"""`make gpu` without a GPU: the parts run, and one that dies takes no other with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.gpu.__main__ import main
from tests.gpu.arguments import WRONG
from tests.gpu.operators import different
from tests.gpu.part import COMMAND, PARTS, Part, run

ROOT = Path(__file__).parents[2]
DIES = "dies_for_the_test"


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_part_comes_to_its_end(part: Part, tmp_path: Path) -> None:
    file = tmp_path / "part.md"
    found = run(part, file, "cpu", tiny=True, seconds=280)
    log = file.with_suffix(".log").read_text()
    assert found.ending == "done", (found.text, log)
    assert found.text.strip()


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ("print('half a table', flush=True); raise SystemExit(7)", "died with exit code 7"),
        ("print('half a table', flush=True); 1 / 0", "died with exit code 1"),
        ("print('half a table', flush=True); import os; os.abort()", "died with exit code -6"),
        (f"print('half a table', flush=True); raise SystemExit({WRONG})", "found something wrong"),
    ],
)
def test_a_part_that_fails_leaves_what_it_has_and_the_next_is_made(
    body: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{DIES}.py").write_text(body)
    (tmp_path / "fine.py").write_text("print('| a whole table |')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    parts = [Part("one", "First", DIES, 1), Part("two", "Second", "fine", 1)]
    assert main(["--device", "cpu", "--tiny", "--out", str(tmp_path / "out")], parts) == 1
    text = (tmp_path / "out" / "gpu.md").read_text()
    assert "half a table" in text
    assert "| a whole table |" in text
    assert (ending in text) == ending.startswith("died")
    assert "no number means anything" in text


def test_a_part_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{DIES}.py").write_text(
        "print('so far', flush=True)\nimport time; time.sleep(600)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("tests.gpu.part.PATIENCE", 1.0)
    found = run(Part("one", "First", DIES, 1), tmp_path / "one.md", "cpu", tiny=True, seconds=3)
    assert found.ending == "ended after 3 s"
    assert found.text.startswith("so far")
    assert not found.right


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    assert "torch sees no GPU here" in capsys.readouterr().err


def test_the_shares_fit_into_ten_minutes() -> None:
    assert sum(part.share for part in PARTS) <= 9.5 * 60


def test_a_difference_is_a_row() -> None:
    one, other = {"a": "float16", "b": "raises", "c": "x"}, {"a": "float32", "b": "raises"}
    assert list(different(one, other)) == ["| a | float16 | float32 |"]


def test_the_document_names_the_command() -> None:
    assert COMMAND in (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    assert "\ngpu:" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.slow
def test_operators_that_time_is_left_for_are_compared() -> None:
    command = [sys.executable, "-m", "tests.gpu.operator_answers", "cpu", "80"]
    ends = [
        subprocess.run(
            [*command, seconds, "1/2"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for seconds in ("0", "60")
    ]
    none, some = (json.loads(end.stdout) for end in ends)
    assert not none
    assert some
