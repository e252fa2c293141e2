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
from amp_migrate.runtime.cells import by_cell
from amp_migrate.runtime.import_hook import Compiler, exec_script
from amp_migrate.runtime.sources import rewritten, source
from amp_migrate.runtime.trace import Trace

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


RAISES = (
    "import torch\nfrom torch import nn\n\n\ndef check(x):\n    raise ValueError('a bad batch')\n",
    """device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
    """for _ in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(3, 4, device=device)).pow(2).mean()
    loss.backward()
    optimizer.step()
    check(loss)
""",
    "print('never')\n",
)


def notebook_of(*sources: str) -> str:
    cells = [{"cell_type": "code", "source": one, "metadata": {}} for one in sources]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_lines_are_told_by_cell(folder: Path) -> None:
    (folder / "raises.ipynb").write_text(notebook_of(*RAISES))
    done = invoke("verify", "--device", "cpu", "--quick", "--steps", "2", "raises.ipynb")
    assert done.return_value == 1
    assert "raised an error at raises.ipynb:cell 1:6: ValueError: a bad batch" in done.output
    assert 'File "raises.ipynb", cell 3, line 6, in <module>\n        check(loss)' in done.output


def test_a_stretch_over_several_cells_is_told_for_each(folder: Path) -> None:
    (folder / "three.ipynb").write_text(notebook_of("a = 1\nb = 2\n", "c = 3\n", "d = 4\n"))
    trace = Trace(
        not_entered=[("three.ipynb", 3, 7, True), ("train.py", 3, 7, True)],
        loss_sites=["three.ipynb:5", "train.py:5"],
    )
    by_cell(trace)
    assert trace.not_entered == [
        ("three.ipynb:cell 1", 2, 2, True),
        ("three.ipynb:cell 2", 1, 1, True),
        ("three.ipynb:cell 3", 1, 1, True),
        ("train.py", 3, 7, True),
    ]
    assert trace.loss_sites == ["three.ipynb:cell 2:1", "train.py:5"]


def test_a_run_tells_the_traceback_by_cell(folder: Path) -> None:
    (folder / "raises.ipynb").write_text(notebook_of(*RAISES))
    command = [sys.executable, "-m", "amp_migrate", "run", "raises.ipynb"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'raises.ipynb", cell 3, line 6, in <module>\n    check(loss)' in done.stderr
