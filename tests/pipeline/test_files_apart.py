"""Loops whose files cannot be planned with those that they ask for: what these would say of them,
nobody knows, and nothing is written.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.model.budget import BudgetEndedError
from amp_migrate.pipeline import programs
from amp_migrate.pipeline.batch import _Run
from amp_migrate.pipeline.programs import rewrite_together
from amp_migrate.project.discovery import discover

TRAINER = """\
import torch


class Trainer:
    def __init__(self, encoder, memory):
        self.encoder = encoder
        self.memory = memory
        self.optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)

    def train(self, loader):
        for x, y in loader:
            loss = self.memory(self.encoder(x.cuda()), y.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
MEMORY = """\
import torch
from torch import nn
from torch.nn import functional as F


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("features", torch.randn(10, 8))

    def forward(self, inputs, targets):
        {write}
        return F.cross_entropy(inputs @ self.features.t(), targets)
"""
MAIN = """\
from torch import nn
from memory import Memory
from trainer import Trainer

Trainer(nn.Linear(6, 8).cuda(), Memory().cuda()).train([])
"""
WRITES = "self.features[targets] = inputs"


def loops(folder: Path, named: list[str], write: str) -> dict[str, tuple[str, str | None]]:
    texts = {
        "trainer.py": TRAINER,
        "memory.py": MEMORY.replace("{write}", write),
        "main.py": MAIN,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    found = [one for one in discover([folder]) if Path(one.path).name in named]
    _, project = _Run(found, Settings(), False)._sift()
    done = rewrite_together([str(folder / "trainer.py")], Settings(), project)
    return {
        Path(real).name: (loop.status, loop.reason)
        for real, one in done.members.items()
        for loop in one.outcome.loops
    }


@pytest.mark.parametrize(
    ("named", "write", "expected"),
    [
        (["trainer.py", "memory.py", "main.py"], WRITES, ("migrated", None)),
        (["trainer.py"], WRITES, ("refused", "dtype-strict-inplace")),
        (["trainer.py", "main.py"], WRITES, ("refused", "dtype-strict-inplace")),
        (["trainer.py"], "inputs = inputs + 1", ("migrated", None)),
    ],
)
def test_what_must_change_in_a_file_that_was_not_named(
    tmp_path: Path, named: list[str], write: str, expected: tuple[str, str | None]
) -> None:
    assert loops(tmp_path, named, write)["trainer.py"] == expected


def test_files_that_lead_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def grown(*_: object) -> None:
        raise BudgetEndedError

    monkeypatch.setattr(programs, "_grown", grown)
    named = ["trainer.py", "memory.py", "main.py"]
    assert loops(tmp_path, named, WRITES)["trainer.py"] == ("refused", "too-many-paths")


def test_more_files_than_a_program_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_FILES", 2)
    named = ["trainer.py", "memory.py", "main.py"]
    assert loops(tmp_path, named, WRITES)["trainer.py"] == ("refused", "too-many-paths")


STEPPED = """\
from torch.nn import functional as F


def run(model, loader, optimizer):
    for x, y in loader:
        {before}
        loss = F.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        {step}
"""
CALLS = """\
import torch
from stepped import run

model = torch.nn.Linear(4, 4).cuda()
run(model, [], torch.optim.SGD(model.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    ("before", "step", "reason"),
    [
        ("optimizer.zero_grad()", "optimizer.step()", "too-many-paths"),
        ("optimizer.zero_grad()", "pass", "too-many-paths"),
        ("model.half()", "optimizer.step()", "already-half"),
    ],
)
def test_reasons_where_too_much_would_have_to_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, step: str, reason: str
) -> None:
    def grown(*_: object) -> None:
        raise BudgetEndedError

    monkeypatch.setattr(programs, "_grown", grown)
    (tmp_path / "stepped.py").write_text(STEPPED.format(before=before, step=step))
    (tmp_path / "main.py").write_text(CALLS)
    _, project = _Run(list(discover([tmp_path])), Settings(), False)._sift()
    done = rewrite_together([str(tmp_path / "stepped.py")], Settings(), project)
    found = [loop.reason for one in done.members.values() for loop in one.outcome.loops]
    assert found == [reason]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (CALLS, ("migrated", None)),
        (f"{CALLS}size = 1 if model, else 2\n", ("refused", "syntax")),
    ],
)
def test_callers_that_do_not_parse(
    tmp_path: Path, calls: str, expected: tuple[str, str | None]
) -> None:
    (tmp_path / "stepped.py").write_text(
        STEPPED.format(before="optimizer.zero_grad()", step="optimizer.step()")
    )
    (tmp_path / "main.py").write_text(calls)
    _, project = _Run(list(discover([tmp_path])), Settings(), False)._sift()
    done = rewrite_together([str(tmp_path / "stepped.py")], Settings(), project)
    found = [(o.status, o.reason) for one in done.members.values() for o in one.outcome.loops]
    assert found == [expected]
