"""What the growth of a program has planned, its rewrite does not plan again."""

from __future__ import annotations

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline import migrate
from amp_migrate.planner.files.file_plan import Plan
from amp_migrate.planner.plan import Planner
from amp_migrate.project.module_graph import Project

TRAIN = """\
import torch

from nets import Net

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for data, target in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(data.cuda()), target.cuda())
    loss.backward()
    optimizer.step()
"""
NETS = """\
import torch


class Net(torch.nn.Linear):
    pass
"""
TEXTS = {"train.py": TRAIN, "nets.py": NETS}


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the programs that are planned, in order."""
    found: list[str] = []
    plan = Planner.plan

    def counted(planner: Planner) -> dict[str, Plan]:
        found.append(planner.program.module.files[0].text)
        return plan(planner)

    monkeypatch.setattr(Planner, "plan", counted)
    migrate.forget()
    return found


def test_a_rewrite_uses_the_plans_of_the_growth(planned: list[str]) -> None:
    project = Project()
    assert migrate.company_of(TEXTS, Settings(), project) == ()
    outcome = migrate.migrate_texts(TEXTS, Settings(), project).outcomes["train.py"]
    assert outcome.status == "migrated"
    assert planned.count(TRAIN) == 1
    assert outcome.output in planned  # the second run is a run of its own


def test_plans_are_those_of_the_settings_and_the_project(planned: list[str]) -> None:
    project = Project()
    migrate.company_of(TEXTS, Settings(), project)
    migrate.company_of(TEXTS, Settings(dtype="bfloat16"), project)
    migrate.company_of(TEXTS, Settings(), Project({"a.py": ()}))
    assert planned.count(TRAIN) == 3


def test_nothing_is_kept_when_models_are_forgotten(planned: list[str]) -> None:
    project = Project()
    migrate.company_of(TEXTS, Settings(), project)
    migrate.forget()
    migrate.company_of(TEXTS, Settings(), project)
    assert planned.count(TRAIN) == 2
