"""Files that are linted as one program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amp_migrate.checks import Check
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.pipeline import new_findings
from amp_migrate.pipeline.lint import linked
from amp_migrate.pipeline.lint.files import Options
from amp_migrate.pipeline.lint.fix import fix
from amp_migrate.pipeline.lint.together import lint_task
from amp_migrate.pipeline.lint.tree import Task
from amp_migrate.pipeline.new_findings import RuleFailedError, brought_in

ENGINE = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
MAIN = "import engine\n\nengine.scaler.update()\n"


def _fails(program: Program, settings: Settings) -> Iterator[Finding]:
    if len(program.module.files) > 1 or "torch.amp" in program.module.text:
        raise RecursionError("no such luck")
    yield from ()


FAILING = Check(Rule("failing", "error"), _fails)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    paths = tmp_path / "engine.py", tmp_path / "main.py"
    for path, text in zip(paths, (ENGINE, MAIN), strict=True):
        path.write_text(text)
    return Task(paths)


def test_a_rule_that_fails_on_the_program_is_told_once(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linked, "selected", lambda *_: (FAILING,))
    engine, main = lint_task(task, Options(Settings(), tmp_path))
    assert [(crash.rule, crash.path) for crash in engine.crashes] == [("failing", engine.path)]
    assert main.crashes == ()
    assert [one.rule for one in engine.findings] == ["deprecated-cuda-amp"]  # each by itself


def test_a_program_without_a_crash_tells_of_none(task: Task, tmp_path: Path) -> None:
    reports = lint_task(task, Options(Settings(), tmp_path))
    assert [report.crashes for report in reports] == [(), ()]


def test_what_a_rule_fails_on_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_findings, "all_checks", lambda: (FAILING,))
    new = ENGINE.replace("torch.cuda.amp.GradScaler(", "torch.amp.GradScaler('cuda'")
    with pytest.raises(RuleFailedError, match=r"the rule failing \(RecursionError"):
        brought_in(ENGINE, new, "engine.py", Settings())
    assert brought_in(new, ENGINE, "engine.py", Settings()) == []  # the original's own affair
    done = fix(ENGINE, "engine.py", Settings(target_torch=(2, 13)), unsafe=False)
    assert done.text == ENGINE
    assert "the rule failing" in done.left[0].why
