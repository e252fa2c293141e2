"""`amp-migrate PATH --verify COMMAND`: written where it passes, else every file as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amp_migrate.cli import cli

HEAD = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
data, target = torch.randn(64, 8).to(device), torch.randn(64, 1).to(device)


class Square(nn.Module):
    def forward(self, x):
        x = x * 3000
        return x * x / 9e6


"""
LOOP = """\
def {name}(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in zip(data.split(16), target.split(16)):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()


"""
MAIN = """\
plain(nn.Sequential(nn.Linear(8, 1)).to(device))
large({model}.to(device))
"""
FITS = "nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))"
OVERFLOWS = "nn.Sequential(nn.Linear(8, 8), Square(), nn.Linear(8, 1))"


def program(model: str) -> str:
    loops = LOOP.format(name="plain") + LOOP.format(name="large")
    return HEAD + loops + MAIN.format(model=model)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def migrate(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["migrate", *arguments], standalone_mode=False)


def test_what_passes_is_written(folder: Path) -> None:
    file = folder / "train.py"
    file.write_text(program(FITS))
    done = migrate("train.py", "--verify", "--device cpu --quick --steps 8 train.py")
    assert done.return_value == 0, done.output
    assert "PASS" in done.stderr
    assert file.read_text().count("scaler.update()") == 2


def test_what_fails_is_not_and_the_others_can_be_kept(folder: Path) -> None:
    file = folder / "train.py"
    file.write_text(program(OVERFLOWS))
    command = "--device cpu --quick --steps 8 train.py"
    done = migrate("train.py", "--verify", command)
    assert done.return_value == 1
    assert file.read_text() == program(OVERFLOWS)
    assert "every file is as it was" in done.stderr
    assert "to blame: train.py:large: amp: " in done.stderr
    assert "to blame: train.py:plain" not in done.stderr
    assert "to keep the others: --leave train.py:large" in done.stderr
    done = migrate("train.py", "--leave", "train.py:large", "--verify", command)
    assert done.return_value == 0, done.output
    text = file.read_text()
    assert text.count("scaler.update()") == 1
    assert LOOP.format(name="large") in text


def test_a_program_that_is_not_there_is_wrong_usage(folder: Path) -> None:
    (folder / "train.py").write_text(program(FITS))
    done = migrate("train.py", "--verify", "other.py")
    assert "there is no file other.py" in str(done.exception)
    assert (folder / "train.py").read_text() == program(FITS)


@pytest.mark.parametrize("flag", ["--diff", "--check"])
def test_it_writes_so_it_does_not_go_with_what_does_not(folder: Path, flag: str) -> None:
    (folder / "train.py").write_text(program(FITS))
    done = migrate("train.py", flag, "--verify", "train.py")
    assert "--verify writes files" in str(done.exception)


def test_where_nothing_is_migrated_nothing_is_run(folder: Path) -> None:
    (folder / "other.py").write_text("print(1)\n")
    assert migrate("other.py", "--verify", "nothing.py").return_value == 0


@pytest.mark.parametrize("name", ["train.py", ":main", "train.py:"])
def test_a_loop_is_named_by_file_and_scope(folder: Path, name: str) -> None:
    (folder / "train.py").write_text(program(FITS))
    assert "names no loop" in str(migrate("train.py", "--leave", name).exception)


def test_files_that_the_program_does_not_import_are_told(folder: Path) -> None:
    (folder / "train.py").write_text(program(FITS))
    (folder / "elsewhere.py").write_text(program(FITS))
    done = migrate(".", "--verify", "--device cpu --quick --steps 4 train.py")
    assert done.return_value == 0, done.output
    assert "note: not verified: elsewhere.py is no file of this program" in done.stderr
