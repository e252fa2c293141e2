"""Programs that lead to more than can be followed: left alone, with the reason, and the others done."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.model import budget
from amp_migrate.pipeline.batch import rewrite_all
from amp_migrate.pipeline.lint.batch import lint_all
from amp_migrate.pipeline.lint.files import Options
from amp_migrate.pipeline.lint.results import Report
from amp_migrate.project.discovery import discover

HEAD = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """\
for step in range(3):
    optimizer.zero_grad()
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
PLAIN = HEAD + LOOP.format(loss="model(torch.randn(2, 4, device=device)).mean()")


def web(size: int) -> str:
    """Functions each of which calls all of them, with what it was given, in both of its branches."""
    calls = "\n".join(
        f"    if x.sum() > {i}:\n        x, at = f{i}(at, x)\n    else:\n        at, x = f{i}(x, at)"
        for i in range(size)
    )
    functions = (f"def f{i}(x, at):\n{calls}\n    return x.to(at), at\n\n\n" for i in range(size))
    loss = "model(f0(torch.randn(2, 4), device)[0]).mean()"
    return HEAD + "\n\n" + "".join(functions) + LOOP.format(loss=loss)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "plain.py").write_text(PLAIN)
    (tmp_path / "web.py").write_text(web(6))
    return tmp_path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_STEPS", 3_000)
    monkeypatch.setattr(budget, "_PER_CHARACTER", 0)


def told(tree: Path) -> dict[str, list[str | None]]:
    batch = rewrite_all(list(discover([tree])), Settings(), write=False)
    return {
        Path(one.outcome.path).name: [loop.reason for loop in one.outcome.loops]
        for one in batch.results
    }


def linted(tree: Path) -> dict[str, Report]:
    settings = Settings(select=("loop-without-amp",))
    batch = lint_all(list(discover([tree])), Options(settings, tree), write=False)
    return {Path(one.path).name: one for one in batch.reports}


@pytest.mark.usefixtures("small")
def test_a_loop_that_leads_too_far_is_refused_and_other_files_are_done(tree: Path) -> None:
    assert told(tree) == {"plain.py": [None], "web.py": ["too-many-paths"]}


@pytest.mark.usefixtures("small")
def test_lint_says_nothing_of_it_but_that(tree: Path) -> None:
    reports = linted(tree)
    assert [one.rule for one in reports["plain.py"].findings] == ["loop-without-amp"]
    assert reports["web.py"].findings == ()
    [note] = reports["web.py"].notes
    assert "more than can be followed" in note
    assert "`loop-without-amp`" in note
    assert not any(one.crashes for one in reports.values())


def test_functions_that_all_call_each_other_come_to_an_end(tree: Path) -> None:
    (tree / "web.py").write_text(web(12))
    assert told(tree)["plain.py"] == [None]
