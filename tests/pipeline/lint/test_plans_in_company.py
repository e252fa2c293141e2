"""Loops that are judged with the files that they would be migrated with."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.model.budget import BudgetEndedError
from amp_migrate.model.files.neighbours import Neighbours, program_of, reading_at_most
from amp_migrate.pipeline.lint.batch import lint_all
from amp_migrate.pipeline.lint.files import Options
from amp_migrate.project.discovery import discover

STEP = """\
import torch.nn.functional as F


def train(model, loader, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
"""
MAIN = """\
import torch
from nets import Net
from step import train

device = torch.device("cuda")
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, [], optimizer, device)
"""
NETS = """\
from torch import nn


class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 1)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {"step": STEP, "main": MAIN, "nets": NETS}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def loops(tree: Path) -> list[str]:
    settings = Settings(select=("loop-without-amp",))
    batch = lint_all(list(discover([tree])), Options(settings, tree), write=False)
    assert not any(one.crashes for one in batch.reports)
    return [Path(one.path).name for one in batch.reports if one.findings]


def test_a_loop_that_its_callers_make_whole_is_told(tree: Path) -> None:
    assert loops(tree) == ["step.py"]


def test_a_loop_whose_models_are_in_much_text_is_told_as_well(tree: Path) -> None:
    (tree / "nets.py").write_text(NETS + "# net\n" * 5_000)
    assert loops(tree) == ["step.py"]


def test_nothing_is_told_where_that_is_too_much_to_read(tree: Path) -> None:
    (tree / "nets.py").write_text(NETS + "# net\n" * 50_000)
    assert loops(tree) == []


def test_what_is_read_within_a_bound_is_kept_apart(tree: Path) -> None:
    file = str(tree / "nets.py")
    outside = program_of(file)
    with reading_at_most(len(NETS)):
        within = program_of(file)
        assert within is not None
        assert within is program_of(file)  # read once, and paid for once
        assert within is not outside
        with pytest.raises(BudgetEndedError):
            Neighbours(file).find("step.train")
    assert program_of(file) is outside
