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


TRAIN = """\
import torch
from net import *

model = vgg(10).cuda()
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader, balance):
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        model.copy_grad(balance)
        optimizer.step()
        optimizer.zero_grad()
"""
NET = """\
import torch
from layer import Brick
from torch import nn


class VGG(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(Brick(8), nn.ReLU(), Brick(8))
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.features(x))

    def copy_grad(self, balance):
        for layer in self.features.children():
            if isinstance(layer, Brick):
                layer.copy_grad(balance)


def vgg(classes):
    return VGG(classes)
"""
LAYER = """\
import torch
from torch import nn


class Brick(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proxy = nn.Parameter(torch.randn(width, width))
        self.aux = nn.Parameter(torch.randn(width, width))

    def forward(self, x):
        return x @ (self.aux * self.proxy)

    def copy_grad(self, balance):
        self.aux.grad = self.proxy.grad
        self.aux.grad[:, 0] = self.aux.grad[:, 0] - balance
"""


def test_what_a_file_behind_another_one_holds_is_seen(tmp_path: Path) -> None:
    """A loop is planned with the files that it asks for before it may be told of."""
    for name, text in {"train": TRAIN, "net": NET, "layer": LAYER}.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert loops(tmp_path) == []
