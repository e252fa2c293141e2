"""Mistakes that hang on other files: scalers that are handed over, callers and base classes of the
project.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint import lint_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package of its own: files of a sibling folder count as near."""
    place = tmp_path / "project" / "package"
    place.mkdir(parents=True)
    return place


def rules(path: Path, text: str) -> list[tuple[str, int]]:
    return [(one.rule, one.line) for one in lint_text(text, str(path), Settings())]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            "scaler.unscale_(optimizer)\n    optimizer.step()\n    scaler.update()",
            [("bare-step-after-unscale", 3)],
        ),
        ("scaler.unscale_(optimizer)\n    scaler.step(optimizer)\n    scaler.update()", []),
        (
            "scaler.step(optimizer)\n    scaler.update()\n    scaler.update()",
            [("double-or-stray-update", 4)],
        ),
        (
            (
                "scaler.unscale_(optimizer)\n    scaler.unscale_(optimizer)\n    "
                "scaler.step(optimizer)"
            ),
            [("double-unscale", 3)],
        ),
        ("optimizer.step()\n    trainer.scaler.update()", []),
    ],
)
def test_a_module_that_only_gets_a_scaler(
    folder: Path, body: str, found: list[tuple[str, int]]
) -> None:
    text = f"def apply(trainer, scaler, optimizer):\n    {body}\n# torch\n"
    assert [
        one for one in rules(folder / "step.py", text) if one[0] != "missing-scaler-update"
    ] == found


CLIP = """\
import torch


def apply(model, optimizer, scaler):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
STEP = """\
def apply(model, optimizer, scaler, loss):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
# torch
"""
CALLER = (
    "from step import apply\n\nfor batch in loader:\n    {before}\n    apply(model, "
    "optimizer, scaler)\n    {after}\n"
)


@pytest.mark.parametrize(
    ("before", "found"),
    [("scaler.unscale_(optimizer)", []), ("pass", [("clip-without-unscale", 5)])],
)
def test_the_caller_unscales(folder: Path, before: str, found: list[tuple[str, int]]) -> None:
    (folder / "step.py").write_text(CLIP)
    (folder / "train.py").write_text(CALLER.format(before=before, after="pass"))
    assert rules(folder / "step.py", CLIP) == found


@pytest.mark.parametrize(
    ("after", "found"), [("scaler.update()", []), ("pass", [("missing-scaler-update", 3)])]
)
def test_the_caller_updates(folder: Path, after: str, found: list[tuple[str, int]]) -> None:
    (folder / "step.py").write_text(STEP)
    (folder / "train.py").write_text(CALLER.format(before="pass", after=after))
    assert rules(folder / "step.py", STEP) == found


def test_callers_that_are_not_in_sight_may_update(folder: Path) -> None:
    (folder / "step.py").write_text(STEP)
    assert rules(folder / "step.py", STEP) == []
    assert rules(folder / "unsaved.py", STEP) == []


BRAIN = """\
class Brain:
    def fit(self, loader):
        for batch in loader:
            self.fit_batch(batch)
            {hook}

    def fit_batch(self, batch):
        self.scaler.scale(self.loss(batch)).backward()
        self.step()

    def step(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
AFTER = """
    def after(self):
        self.scaler.update()
"""
OWN = """\
import torch
import core


class Separation(core.Brain):
    def fit_batch(self, batch):
        self.scaler.scale(torch.nn.functional.mse_loss(*batch)).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        {step}
"""


@pytest.mark.parametrize(
    ("hook", "step", "found"),
    [
        ("pass", "self.scaler.step(self.optimizer)", [("missing-scaler-update", 10)]),
        ("self.after()", "self.scaler.step(self.optimizer)", []),
        ("pass", "self.scaler.step(self.optimizer)\n        self.after()", []),
        ("pass", "self.step()", []),
    ],
)
def test_the_base_class_updates(
    folder: Path, hook: str, step: str, found: list[tuple[str, int]]
) -> None:
    (folder / "core.py").write_text(
        BRAIN.format(hook=hook) + (AFTER if "after" in hook + step else "")
    )
    own = OWN.format(step=step)
    (folder / "train.py").write_text(own)
    assert rules(folder / "train.py", own) == found


def test_a_base_class_that_is_not_found_may_update(folder: Path) -> None:
    own = OWN.format(step="self.scaler.step(self.optimizer)")
    (folder / "train.py").write_text(own)
    assert rules(folder / "train.py", own) == []
