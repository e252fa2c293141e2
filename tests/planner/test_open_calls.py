"""A model of which nothing is found is told; one of a library, or in sight, is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.whole_program import rewrite_program

PROGRAM = """\
import sys

import torch
import torch.nn.functional as F
{imports}


def train(model, loader, device):
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()


device = torch.device("cuda")
train({model}.to(device), [], device)
"""
TOLD = "nothing in sight shows what `model` runs"
NET = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x
"""


def notes(folder: Path, imports: str, model: str) -> list[str]:
    main, net = folder / "main.py", folder / "net.py"
    main.write_text(PROGRAM.format(imports=imports, model=model), encoding="utf-8")
    net.write_text(NET, encoding="utf-8")
    outcome = rewrite_program([main, net], Settings())[main].outcome
    assert [loop.status for loop in outcome.loops] == ["migrated"]
    return [note.message for note in outcome.notes]


@pytest.mark.parametrize(
    ("imports", "model"),
    [("", "torch.load(sys.argv[1])"), ("import pickle", 'pickle.load(open("m", "rb"))')],
)
def test_a_model_that_is_loaded_whole_is_told(tmp_path: Path, imports: str, model: str) -> None:
    assert any(TOLD in note for note in notes(tmp_path, imports, model))


@pytest.mark.parametrize(
    ("imports", "model"),
    [
        ("", "torch.nn.Linear(4, 4)"),
        ("import torchvision", "torchvision.models.resnet18()"),
        ("import timm", "timm.create_model(sys.argv[1])"),
        ("from net import Net", "Net()"),
        ("import net", "getattr(net, sys.argv[1])()"),
    ],
)
def test_a_model_of_a_library_or_in_sight_is_not(tmp_path: Path, imports: str, model: str) -> None:
    assert notes(tmp_path, imports, model) == []


def test_what_a_lambda_in_sight_runs_is_shown(tmp_path: Path) -> None:
    shown = "shaded = lambda raw, far: 1 - torch.exp(-F.relu(raw) * far)"
    main = tmp_path / "main.py"
    text = PROGRAM.format(imports=NET, model="Net()").replace("F.mse_loss", "shaded")
    main.write_text(text.replace("    for x, y", f"    {shown}\n    for x, y"), encoding="utf-8")
    outcome = rewrite_program([main], Settings())[main].outcome
    assert [loop.status for loop in outcome.loops] == ["migrated"]
    assert not [note.message for note in outcome.notes if "in sight" in note.message]


CRITERION = """\
import torch
import torch.nn.functional as F


def train(net, loader, kind):
    optimizer = torch.optim.Adam(net.parameters())
    criterion = {criterion}
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()


train(torch.nn.Linear(4, 1).cuda(), [], "mse")
"""


@pytest.mark.parametrize(
    ("criterion", "told"),
    [
        ("F.binary_cross_entropy_with_logits", False),
        ("torch.load(kind)", True),
    ],
)
def test_an_operator_by_another_name_is_in_sight(
    tmp_path: Path, criterion: str, told: bool
) -> None:
    file = tmp_path / "main.py"
    file.write_text(CRITERION.format(criterion=criterion), encoding="utf-8")
    outcome = rewrite_program([file], Settings())[file].outcome
    assert [loop.status for loop in outcome.loops] == ["migrated"]
    assert any("what `criterion` runs" in n.message for n in outcome.notes) is told


FROZEN = """\
import sys

import torch
import torch.nn.functional as F


def train(net, teacher, loader, device):
    optimizer = torch.optim.Adam(net.parameters())
    teacher.requires_grad_(False)
    for x, y in loader:
        optimizer.zero_grad()
        x = x.to(device)
        {lines}
        loss = F.mse_loss(net(x), wanted)
        loss.backward()
        optimizer.step()


device = torch.device("cuda")
train(torch.nn.Linear(4, 1).to(device), torch.load(sys.argv[1]).to(device), [], device)
"""


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("out = net(x); out = out.detach(); out.requires_grad_(); wanted = out.mean()", False),
        ("wanted = teacher(x)", True),
    ],
)
def test_what_is_asked_as_tensors_are_is_no_model(tmp_path: Path, lines: str, told: bool) -> None:
    file = tmp_path / "main.py"
    file.write_text(FROZEN.format(lines=lines), encoding="utf-8")
    outcome = rewrite_program([file], Settings())[file].outcome
    assert [loop.status for loop in outcome.loops] == ["migrated"]
    assert any("nothing in sight shows what" in n.message for n in outcome.notes) is told
