"""Many files through the migrator: sifted, rewritten in workers, put back one at a time, reported in order."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from amp_migrate.config import Settings
from amp_migrate.source import rewrite
from amp_migrate.source.discovery import Found
from amp_migrate.source.errors import SourceError
from amp_migrate.source.rewrite import Rewritten

if TYPE_CHECKING:
    from amp_migrate.cli.parallel import Died

# A bar for a run that ends before it is read is noise.
WORTH_A_BAR = 20


@dataclass(frozen=True)
class Batch:
    """Results in the order of the files; with `interrupted`, of those that were done by then."""

    results: tuple[Rewritten, ...]
    total: int
    interrupted: bool = False


def rewrite_all(files: Sequence[Found], settings: Settings, write: bool) -> Batch:
    """Migrate `files`, on disk if `write`, else in memory with the bytes before and after in the results."""
    done: dict[int, Rewritten] = {}
    try:
        with _termination_as_interrupt():
            candidates = _sift(files, done)
            with contextlib.closing(_rewritten(files, candidates, settings)) as results:
                for index, result in results:
                    with _held_interrupt():
                        done[index] = _commit(files[index].path, result) if write else result
    except KeyboardInterrupt:
        return Batch(_ordered(done), len(files), interrupted=True)
    return Batch(_ordered(done), len(files))


def _ordered(done: dict[int, Rewritten]) -> tuple[Rewritten, ...]:
    return tuple(done[index] for index in sorted(done))


def _sift(files: Sequence[Found], done: dict[int, Rewritten]) -> dict[int, int]:
    """Settle what needs no parser; the sizes of the rest by index."""
    sizes = {}
    for index, found in enumerate(files):
        if found.error:
            done[index] = rewrite.failed(rewrite.shown(found.path), found.error)
            continue
        sifted = rewrite.sift(found.path)
        if isinstance(sifted, Rewritten):
            done[index] = sifted
        else:
            sizes[index] = sifted
    return sizes


def _rewritten(
    files: Sequence[Found], sizes: dict[int, int], settings: Settings
) -> Generator[tuple[int, Rewritten], None, None]:
    if not sizes:
        return
    from amp_migrate.cli import parallel

    # The largest first, so that the last worker is not left alone with it.
    order = sorted(sizes, key=lambda index: -sizes[index])
    tasks = [files[index].path for index in order]
    function = functools.partial(rewrite.rewrite_file, settings=settings)
    workers = parallel.workers_for([sizes[index] for index in order])
    with _bar(len(tasks)) as advance, contextlib.closing(parallel.each(function, tasks, workers)) as results:
        for position, result in results:
            index = order[position]
            yield index, _buried(files[index].path, result) if isinstance(result, parallel.Died) else result
            advance()


def _buried(path: Path, died: Died) -> Rewritten:
    why = "most likely it is nested too deeply for a parser; exclude it" if died.code < 0 else "please report it"
    message = f"its worker process died ({died}): {why}. The file is unchanged"
    return rewrite.failed(rewrite.shown(path), SourceError(message))


def _commit(path: Path, result: Rewritten) -> Rewritten:
    """Put the new bytes on disk; the result without them."""
    outcome = result.outcome
    if outcome.status == "migrated":
        from amp_migrate.source.replace import replace as replace_file

        try:
            replace_file(path, result.after, result.before)
        except SourceError as error:
            return rewrite.failed(outcome.path, error)
    return replace(result, before=b"", after=b"")


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let `kill` end a run as Ctrl-C does: workers ended, files whole, a report of what was done."""
    with _handled(signal.SIGTERM, signal.default_int_handler):
        yield


@contextlib.contextmanager
def _held_interrupt() -> Iterator[None]:
    """Hold an interrupt back until a file is whole and counted."""
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)

    with _handled(signal.SIGINT, hold), _handled(signal.SIGTERM, hold):
        yield
    if held:
        signal.raise_signal(held[0])


@contextlib.contextmanager
def _handled(number: int, handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    # Only the main thread of a program may set handlers, and only there do signals arrive.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous)


@contextlib.contextmanager
def _bar(total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on standard error, for long runs on a terminal."""
    if total < WORTH_A_BAR or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Migrating", total=total)
        yield lambda: progress.advance(task)
