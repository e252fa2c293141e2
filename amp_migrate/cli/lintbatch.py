"""Many files through the linter: sifted, linted in workers, fixes put on disk one at a time, reported in order."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate.lint import files
from amp_migrate.lint.engine import Crash
from amp_migrate.lint.files import Options, Report
from amp_migrate.source.discovery import Found
from amp_migrate.source.errors import SourceError
from amp_migrate.telling import shown

if TYPE_CHECKING:
    from amp_migrate.cli.parallel import Died

# Analysis is fast: below this, a worker takes longer to start than to work.
WORTH_BYTES = 400_000


def lint_all(found: Sequence[Found], options: Options, write: bool) -> tuple[Report, ...]:
    """Lint `found`, in order; with `write`, fixed files go back to disk."""
    done: dict[int, Report] = {}
    sizes: dict[int, int] = {}
    for index, one in enumerate(found):
        sifted = files.unreadable(shown(one.path), one.error) if one.error else files.sift(one.path)
        if isinstance(sifted, Report):
            done[index] = sifted
        else:
            sizes[index] = sifted
    _lint(found, sizes, options, write, done)
    return tuple(done[index] for index in range(len(found)))


def _lint(
    found: Sequence[Found], sizes: dict[int, int], options: Options, write: bool, done: dict[int, Report]
) -> None:
    # The largest first, so that the last worker is not left alone with it.
    order = sorted(sizes, key=lambda index: -sizes[index])
    function = functools.partial(files.lint_file, options=options)
    paths = [found[index].path for index in order]
    with contextlib.closing(_each(function, paths, [sizes[index] for index in order])) as results:
        for position, report in results:
            done[order[position]] = _commit(found[order[position]].path, report) if write else report


def _each(
    function: Callable[[Path], Report], paths: Sequence[Path], sizes: Sequence[int]
) -> Generator[tuple[int, Report], None, None]:
    """Call `function` on every path, in workers where that pays; multiprocessing is imported only then."""
    if len(paths) < 2 or sum(sizes) < WORTH_BYTES:
        yield from ((index, function(path)) for index, path in enumerate(paths))
        return
    from amp_migrate.cli import parallel

    with contextlib.closing(parallel.each(function, paths, parallel.workers_for(sizes, WORTH_BYTES))) as results:
        for index, result in results:
            yield index, _buried(paths[index], result) if isinstance(result, parallel.Died) else result


def _buried(path: Path, died: Died) -> Report:
    why = "most likely it is nested too deeply for a parser: exclude it" if died.code < 0 else "please report it"
    message = f"its worker process died ({died}): {why}"
    if died.code < 0:
        return files.unreadable(shown(path), SourceError(message))
    return Report(shown(path), crashes=(Crash("the engine", shown(path), message + "\n"),))


def _commit(path: Path, report: Report) -> Report:
    """Put the fixed bytes on disk; the report without them."""
    if report.after == report.before:
        return report
    from amp_migrate.source.replace import replace as replace_file

    try:
        replace_file(path, report.after, report.before)
    except SourceError as error:
        return files.unreadable(report.path, error)
    return report._replace(before=b"", after=b"")
