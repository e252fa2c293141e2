"""`run` and `verify` of notebooks: their cells as one program, magics left out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amp_migrate.cli import cli
from amp_migrate.config import Settings
from amp_migrate.pipeline.one_file import rewrite_bytes
from amp_migrate.runtime.import_hook import Compiler, exec_script
from amp_migrate.runtime.sources import rewritten, source

NOTEBOOK = Path(__file__).parents[2] / "fixtures" / "notebook_magics" / "before.ipynb"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(NOTEBOOK, tmp_path / "train.ipynb")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, standalone_mode=False)


def test_a_notebook_is_verified_and_its_patch_applies(folder: Path) -> None:
    words = ["--device", "cpu", "--quick", "--steps", "8", "--patch", "amp.patch"]
    done = invoke("verify", *words, "train.ipynb")
    assert done.return_value == 0, done.output
    subprocess.run(["git", "apply", "amp.patch"], cwd=folder, check=True)
    assert "scaler.update()" in source(folder / "train.ipynb")


def test_its_text_keeps_the_marks_of_the_original() -> None:
    data = NOTEBOOK.read_bytes()
    result = rewrite_bytes("train.ipynb", data, Settings())
    before, after = source(NOTEBOOK), rewritten("train.ipynb", data, result.after, "utf-8")
    marks = [line for line in before.splitlines() if line.startswith('"%% cell')]
    assert marks
    assert [line for line in after.splitlines() if line.startswith('"%% cell')] == marks


def test_what_a_notebook_has_is_there(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = {"cell_type": "code", "source": "files = !ls\ndisplay(len(files))", "metadata": {}}
    text = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "small.ipynb").write_text(json.dumps(text))
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", ["", *sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    exec_script("small.ipynb", [], Compiler(lambda path: None))
    assert capsys.readouterr().out == "0\n"


def test_a_script_is_given_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "small.py").write_text("display(1)")
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", ["", *sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    with pytest.raises(NameError):
        exec_script("small.py", [], Compiler(lambda path: None))


def test_a_notebook_that_cannot_be_read_is_no_program(folder: Path) -> None:
    (folder / "broken.ipynb").write_text("{")
    with pytest.raises(ValueError, match=r"broken\.ipynb: no JSON"):
        source("broken.ipynb")
    done = invoke("verify", "broken.ipynb")
    assert done.return_value == 1
    assert "no loop of the program is migrated" in done.output
