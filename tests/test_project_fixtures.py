"""Programs of several files in `fixtures/`: what the migrator makes of all of them together, and
what they do when run.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from amp_migrate.cli import main
from amp_migrate.pipeline.one_file import Rewritten
from amp_migrate.pipeline.whole_program import rewrite_program
from tests.harness.cases import ExpectedLoop, Project, project_cases
from tests.harness.worker import Worker
from tests.test_fixtures import check_scaler, succeeded

PROJECTS = project_cases()
MIGRATED = [project for project in PROJECTS if project.after is not None]

every_project = pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
every_migrated = pytest.mark.parametrize("project", MIGRATED, ids=lambda project: project.name)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with closing(Worker()) as process:
        yield process


def migrated(project: Project) -> dict[str, Rewritten]:
    results = rewrite_program(project.files(), project.settings)
    return {str(path.relative_to(project.before)): result for path, result in results.items()}


@every_project
def test_every_file_is_the_one_written_by_hand(project: Project) -> None:
    for name, result in migrated(project).items():
        expected = (project.after or project.before) / name
        original = (project.before / name).read_bytes()
        assert (
            result.after if result.outcome.status == "migrated" else original
        ) == expected.read_bytes(), name


@every_project
def test_every_loop_gets_its_status_and_reason(project: Project) -> None:
    found = [
        (name, ExpectedLoop(loop.scope, loop.status, loop.reason))
        for name, result in migrated(project).items()
        for loop in result.outcome.loops
    ]
    assert found == list(project.loops)


@every_project
def test_one_file_alone_is_left_where_others_would_have_to_change(project: Project) -> None:
    for name, result in migrated(project).items():
        path = project.before / name
        alone = rewrite_program([path], project.settings)[path]
        assert result.outcome.status != "failed"
        assert alone.outcome.status != "failed"


@every_migrated
def test_the_command_changes_the_same_files(project: Project, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(project.before, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert main([str(copy)]) == 0
    assert project.after is not None
    for path in project.files():
        name = path.relative_to(project.before)
        assert (copy / name).read_bytes() == (project.after / name).read_bytes(), name
    assert main(["--check", str(copy)]) == 0
    assert sorted(p.name for p in copy.iterdir()) == sorted(
        p.name for p in project.before.iterdir() if p.name[0] != "_"
    )


@every_migrated
def test_with_amp_off_nothing_changes(project: Project, worker: Worker) -> None:
    assert project.after is not None
    before, after = (
        succeeded(worker.run(folder / project.main, "off"))
        for folder in (project.before, project.after)
    )
    assert before.losses, "the program calls no backward"
    assert after.loss_digests == before.loss_digests
    assert after.parameters == before.parameters
    assert after.steps == before.steps


@every_migrated
def test_with_amp_on_it_trains(project: Project, worker: Worker) -> None:
    assert project.after is not None
    trace = succeeded(worker.run(project.after / project.main, "on"))
    assert all(math.isfinite(loss) for loss in trace.losses)
    assert trace.parameters != trace.initial_parameters
    assert trace.violations == []
    assert trace.autocast_dtypes == ["float16"]
    check_scaler(trace)
