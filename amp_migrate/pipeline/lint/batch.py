"""Many files through the linter: sifted, linted in workers, fixes put on disk one at a time,
reported in order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.display import shown
from amp_migrate.pipeline.interrupts import (
    held_interrupt,
    termination_as_interrupt,
)
from amp_migrate.pipeline.lint import files
from amp_migrate.pipeline.lint.files import Options
from amp_migrate.pipeline.lint.results import Crash, Report
from amp_migrate.pipeline.lint.selection import selected
from amp_migrate.pipeline.lint.together import lint_task
from amp_migrate.pipeline.lint.tree import Task, Tree
from amp_migrate.project.discovery import Found
from amp_migrate.project.errors import SourceError
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.pipeline.workers import Died

    Result: TypeAlias = tuple[Report, ...] | Died

# Analysis is fast: below this, a worker takes longer to start than to work.
WORTH_BYTES = 400_000


class Batch(NamedTuple):
    """Reports in the order of the files; with `interrupted`, of those that were done by then."""

    reports: tuple[Report, ...]
    total: int
    interrupted: bool = False


def lint_all(found: Sequence[Found], options: Options, write: bool) -> Batch:
    """Lint `found`, in order; with `write`, fixed files go back to disk."""
    done: dict[str, Report] = {}
    interrupted = False
    try:
        with termination_as_interrupt():
            _lint_all(found, options, done)
    except KeyboardInterrupt:
        interrupted = True
    finished = [one for one in found if shown(one.path) in done]
    with held_interrupt():
        reports = tuple(
            _told(one.path, done[shown(one.path)], write) for one in finished
        )
    return Batch(reports, len(found), interrupted)


def _told(path: Path, report: Report, write: bool) -> Report:
    return _commit(path, report) if write else report


def _lint_all(
    found: Sequence[Found], options: Options, done: dict[str, Report]
) -> None:
    """Fill in the reports, by the files' names as they are shown."""
    tree = Tree(found, partial(_asks_for_more, options))
    for one in found:
        sifted = (
            files.unreadable(shown(one.path), one.error)
            if one.error
            else tree.sift(one)
        )
        if sifted is not None:
            done[shown(one.path)] = sifted
    tasks = tree.tasks()
    if tasks:
        options = options._replace(project=tree.project)
        for report in _reports(tasks, options):
            known = done.get(report.path)
            done[report.path] = (
                report.joined(known) if known is not None else report
            )


def _asks_for_more(options: Options) -> bool:
    """Whether rules are selected that are off by default."""
    checks = selected(options.settings, "")
    return not all(check.rule.default for check in checks)


def _reports(
    tasks: Sequence[Task], options: Options
) -> Generator[Report, None, None]:
    """What becomes of the files of every task; where a worker dies on several, each is tried by
    itself.
    """
    alone: list[Task] = []
    for task, result in _each(partial(lint_task, options=options), tasks):
        if isinstance(result, tuple):
            yield from result
        elif len(task.paths) > 1 or task.near:
            alone += [Task((path,), size=task.size) for path in task.paths]
        else:
            yield _buried(task.paths[0], result)
    if alone:
        yield from _reports(alone, options)


def _each(
    function: Callable[[Task], tuple[Report, ...]], tasks: Sequence[Task]
) -> Generator[tuple[Task, Result], None, None]:
    """Call `function` on every task, in workers where that pays; multiprocessing is imported only
    then.
    """
    sizes = [task.size for task in tasks]
    if len(tasks) < 2 or sum(sizes) < WORTH_BYTES:
        yield from ((task, function(task)) for task in tasks)
        return
    from amp_migrate.pipeline import workers as parallel

    with contextlib.closing(
        parallel.each(function, tasks, parallel.workers_for(sizes, WORTH_BYTES))
    ) as results:
        for index, result in results:
            yield tasks[index], result


def _buried(path: Path, died: Died) -> Report:
    why = (
        "most likely it is nested too deeply for a parser: exclude it"
        if died.code < 0
        else "please report it"
    )
    message = f"its worker process died ({died}): {why}"
    if died.code < 0:
        return files.unreadable(shown(path), SourceError(message))
    return Report(
        shown(path), crashes=(Crash("the engine", shown(path), message + "\n"),)
    )


def _commit(path: Path, report: Report) -> Report:
    """Put the fixed bytes on disk; the report without them."""
    if report.after == report.before:
        return report
    from amp_migrate.pipeline.atomic_write import replace as replace_file

    try:
        replace_file(path, report.after, report.before)
    except SourceError as error:
        return files.unreadable(report.path, error)
    return report._replace(before=b"", after=b"")
