"""The files of one task through the linter, each in company of the others."""

from __future__ import annotations

from pathlib import Path

from amp_migrate.display import shown
from amp_migrate.pipeline.deep_stack import with_deep_stack
from amp_migrate.pipeline.lint import files
from amp_migrate.pipeline.lint.files import Options
from amp_migrate.pipeline.lint.linked import Company, lint_together
from amp_migrate.pipeline.lint.results import Report
from amp_migrate.pipeline.lint.tree import Task
from amp_migrate.project.errors import SourceError
from amp_migrate.project.text import decode
from amp_migrate.regular_files import read_nearby


def lint_task(task: Task, options: Options) -> tuple[Report, ...]:
    """The reports of the task's files, and of those beside them in which something is found. What
    failed on all of them together is told of the first.
    """
    company = (
        _company(task, options)
        if len(task.paths) + len(task.near) > 1
        else Company()
    )
    found = {one.path for one in company.findings or ()}
    beside = [
        path
        for path in task.near
        if shown(path) in found and path not in task.others
    ]
    wanted = [*task.paths, *beside]
    first, *others = (
        files.lint_file(path, options, company) for path in wanted
    )
    return first._replace(crashes=(*first.crashes, *company.crashes)), *others


def _company(task: Task, options: Options) -> Company:
    texts = {}
    for path in (*task.paths, *task.near):
        text = _text(path)
        if text is not None:
            texts[shown(path)] = text
    settings = files.with_target(shown(task.paths[0]), options)
    return with_deep_stack(lint_together, texts, settings)


def _text(path: Path) -> str | None:
    """The text of a file that can be read; its own report says why one cannot."""
    data = read_nearby(path)
    try:
        return decode(data, path.name).text if data is not None else None
    except SourceError:
        return None
