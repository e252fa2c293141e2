"""The tables of docs/measured/ can be made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import lint_corpus, lint_mutants

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


@pytest.fixture
def checkout(tmp_path: Path) -> str:
    """Two programs."""
    programs = {
        "plain.py": "clip_value/before.py",
        "closure.py": "refused/lbfgs_closure/program.py",
    }
    for name, source in programs.items():
        (tmp_path / name).write_bytes((FIXTURES / source).read_bytes())
    return f"owner/name@0123456789abcdef={tmp_path}"


def test_findings(checkout: str, capsys: pytest.CaptureFixture[str]) -> None:
    lint_corpus.main([checkout, "--findings"])
    said = capsys.readouterr().out
    assert "| owner/name | `0123456789` | 2 | " in said


def test_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        lint_corpus.main(["nowhere"])
    assert "nowhere is no folder" in capsys.readouterr().err


PROGRAM = """\
import torch
from torch.amp import GradScaler


def train(model, optimizer, loader):
    scaler = GradScaler("cuda")
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(inputs, targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


def test_mutants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    lint_mutants.main([str(tmp_path), "--missed"])
    said = capsys.readouterr().out.splitlines()
    assert said[2] == "| update lost | 1 | 1 | 100% |"
    assert said[-3:] == ["| all | 6 | 6 | 100% |", "", "1 files."]
