"""Lint finds what the tables of this folder say, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint.batch import lint_all
from amp_migrate.pipeline.lint.files import Options
from amp_migrate.project.discovery import discover

from .projects import LittleProject, projects
from .shapes import variants

HERE = Path(__file__).parent
ACROSS = projects(HERE / "across_files.md")
SHIPPED = [
    one
    for name in ("shipped_bugs.md", "trainers.md", "histories.md")
    for one in projects(HERE / name)
]
SHAPES = variants(HERE / "shapes.md")
QUIET = frozenset({"loop-without-amp", "deprecated-cuda-amp"})
"""What these programs are not about."""


def found(project: LittleProject, folder: Path) -> set[tuple[str, int, str]]:
    """File, line and rule of what the default rules report, in a folder without neighbours."""
    folder = folder / "alone" / "project"
    for name, text in project.files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    reports = lint_all([*discover([folder], ())], Options(Settings(), folder), write=False).reports
    assert not [report.crashes for report in reports if report.crashes]
    return {
        (Path(report.path).relative_to(folder).as_posix(), one.line, one.rule)
        for report in reports
        for one in report.findings
        if one.rule not in QUIET
    }


@pytest.mark.parametrize("project", ACROSS + SHIPPED, ids=lambda project: project.id)
def test_what_lint_says(project: LittleProject, tmp_path: Path) -> None:
    assert found(project, tmp_path) == set(project.errors)


@pytest.mark.parametrize("project", SHAPES, ids=lambda project: project.id)
def test_a_mistake_has_many_shapes(project: LittleProject, tmp_path: Path) -> None:
    assert found(project, tmp_path) == set(project.errors)


def test_shipped_bugs_are_found() -> None:
    """At least nine of ten, and each with its source."""
    assert all(project.source for project in SHIPPED)
    missed = [project for project in SHIPPED if project.missed]
    assert len(SHIPPED) >= 40
    assert len(missed) <= len(SHIPPED) // 10
