"""A file that needs others says so before what it runs is looked at, which is done with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.batch import _Run
from amp_migrate.pipeline.programs import Task, Together, first_look
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.steps.updates import Updates
from amp_migrate.project.discovery import discover

STEP = """\
import torch.nn.functional as F


def train(model, loader, optimizer, device):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
"""
CALL = """\
device = torch.device("cuda")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, [], optimizer, device)
"""
MAIN = f"import torch\nfrom step import train\n\n{CALL}"
WHOLE = f"import torch\n{STEP}\n\n{CALL}"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that a region is searched, or places of `update()` are."""
    found: list[str] = []
    for owner, name in ((Hazards, "check"), (Updates, "update_anchors")):
        real = getattr(owner, name)

        def counted(
            self: object, *given: object, _real: object = real, _name: str = name
        ) -> object:
            found.append(_name)
            assert callable(_real)
            return _real(self, *given)

        monkeypatch.setattr(owner, name, counted)
    return found


def looked(folder: Path, name: str, texts: dict[str, str]) -> Together | tuple[str, ...]:
    for path, text in texts.items():
        (folder / path).write_text(text)
    _, project = _Run(list(discover([folder])), Settings(), False)._sift()
    return first_look(Task((str(folder / name),)), Settings(), project)


def test_a_file_that_needs_its_caller_is_searched_with_it(tmp_path: Path, asked: list[str]) -> None:
    look = looked(tmp_path.resolve(), "step.py", {"step.py": STEP, "main.py": MAIN})
    assert look == (str(tmp_path.resolve() / "main.py"),)
    assert not asked


def test_a_file_that_needs_no_other_is_searched_at_once(tmp_path: Path, asked: list[str]) -> None:
    other = "import whole\n"
    look = looked(tmp_path.resolve(), "whole.py", {"whole.py": WHOLE, "other.py": other})
    assert isinstance(look, Together)
    assert look.changed
    assert "check" in asked


def test_a_function_that_nobody_calls_is_searched_by_itself(
    tmp_path: Path, asked: list[str]
) -> None:
    look = looked(tmp_path.resolve(), "step.py", {"step.py": STEP})
    assert isinstance(look, Together)
    assert "check" in asked


def test_the_places_of_update_are_found_once(tmp_path: Path, asked: list[str]) -> None:
    looked(tmp_path.resolve(), "whole.py", {"whole.py": WHOLE})
    assert asked.count("update_anchors") == 1
