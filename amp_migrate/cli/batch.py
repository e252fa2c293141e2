"""Many files through the migrator: sifted, planned in workers, put back program by program, reported in order."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from amp_migrate.config import Settings
from amp_migrate.source import rewrite
from amp_migrate.source.discovery import Found, surroundings
from amp_migrate.source.errors import SourceError
from amp_migrate.source.programs import Together, conflicts, joined, rewrite_together
from amp_migrate.source.rewrite import Rewritten
from amp_migrate.telling import shown

if TYPE_CHECKING:
    from amp_migrate.cli.parallel import Died
    from amp_migrate.model.project import Index, Project

# A bar for a run that ends before it is read is noise.
WORTH_A_BAR = 20


@dataclass(frozen=True)
class Batch:
    """Results in the order of the files; with `interrupted`, of those that were done by then."""

    results: tuple[Rewritten, ...]
    total: int
    interrupted: bool = False


def rewrite_all(
    files: Sequence[Found], settings: Settings, write: bool, asked: Collection[str] | None = None, keep: bool = True
) -> Batch:
    """Migrate `files`, on disk if `write`, else in memory; with `keep` the results hold the bytes before and after.

    With `asked` (resolved paths), only the loops of these files are migrated and reported. The other files are read for
    who calls whom, and are rewritten, and then reported, where a loop that is asked for needs it.
    """
    run = _Run(files, settings, write, asked, keep)
    try:
        with _termination_as_interrupt():
            run.all()
    except KeyboardInterrupt:
        return Batch(run.ordered(), run.total(), interrupted=True)
    return Batch(run.ordered(), run.total())


class _Run:
    """One pass over all files; `done` holds what is settled, by index."""

    def __init__(
        self,
        files: Sequence[Found],
        settings: Settings,
        write: bool,
        asked: Collection[str] | None = None,
        keep: bool = True,
    ) -> None:
        self.files = files
        self.asked = asked
        self.settings = settings
        self.write = write
        self.keep = keep
        self.done: dict[int, Rewritten] = {}
        self.index_of = {found.real: index for index, found in enumerate(files)}

    def total(self) -> int:
        """How many files are to be told about."""
        return sum(self._concerns(found) for found in self.files)

    def _concerns(self, found: Found) -> bool:
        return self.asked is None or found.real in self.asked or found.error is not None

    def ordered(self) -> tuple[Rewritten, ...]:
        """What is settled, in the order of the files."""
        return tuple(self.done[index] for index in sorted(self.done))

    def all(self) -> None:
        """Sift, plan and write. A file that no other one has to do with is written as soon as it is planned."""
        sizes, project = self._sift()
        held: list[Together] = []
        with _bar(len(sizes)) as advance:
            for program in self._planned([(real,) for real in sizes], sizes, project):
                if len(program.members) == 1 and project.alone(next(iter(program.members))):
                    self._settle(*joined([program]))
                else:
                    held.append(program)
                advance()
        while again := conflicts(held):
            merged = {id(program) for group in again for program in group}
            tasks = [tuple(dict.fromkeys(real for p in group for real in p.members)) for group in again]
            held = [p for p in held if id(p) not in merged] + list(self._planned(tasks, sizes, project))
        self._settle(*joined(held))

    def _sift(self) -> tuple[dict[str, int], Project]:
        """Settle what needs no parser; the sizes of the rest by resolved path, and who imports whom."""
        from amp_migrate.model.project import Index

        sizes: dict[str, int] = {}
        index = Index(found.real for found in self.files if not found.error)
        others: list[Found] = []
        for number, found in enumerate(self.files):
            if found.error:
                self.done[number] = rewrite.failed(shown(found.path), found.error)
            elif not self._concerns(found):
                others.append(found)
            else:
                sifted, data = rewrite.sift_file(found.path)
                index.add(found.real, data)
                if isinstance(sifted, Rewritten):
                    self.done[number] = sifted
                else:
                    sizes[found.real] = sifted
        self._index(index, (found.real for found in others) if sizes else ())
        return sizes, self._with_surroundings(index, sizes)

    def _index(self, index: Index, files: Iterable[str]) -> None:
        for real in files:
            with contextlib.suppress(OSError):
                index.add(real, Path(real).read_bytes())

    def _with_surroundings(self, index: Index, training: Iterable[str]) -> Project:
        """Files beside those that were named are not rewritten, but may call what is in them."""
        self._index(index, surroundings(training, index.known))
        return index.project({found.real: str(found.path) for found in self.files if not found.error})

    def _planned(self, tasks: Sequence[tuple[str, ...]], sizes: dict[str, int], project: Project) -> Iterator[Together]:
        if not tasks:
            return
        from amp_migrate.cli import parallel

        # The largest first, so that the last worker is not left alone with it.
        order = sorted(tasks, key=lambda task: -sum(sizes.get(real, 0) for real in task))
        named = [tuple(self._name(real) for real in task) for task in order]
        function = functools.partial(rewrite_together, settings=self.settings, project=project)
        workers = parallel.workers_for([sum(sizes.get(real, 0) for real in task) for task in order])
        with contextlib.closing(parallel.each(function, named, workers)) as results:
            for position, result in results:
                if isinstance(result, parallel.Died):
                    yield Together({real: _buried(Path(self._name(real)), result) for real in order[position]})
                elif self.asked is not None and not result.needed:
                    yield Together({real: result.members[real] for real in order[position]})
                else:
                    yield result

    def _name(self, real: str) -> str:
        """The path as the user gave it."""
        index = self.index_of.get(real)
        return str(self.files[index].path) if index is not None else real

    def _settle(self, results: Mapping[str, Rewritten], chains: Iterable[list[str]]) -> None:
        for chain in chains if self.write else ():
            with _held_interrupt():
                self._note(_commit({real: results[real] for real in chain}))
        chained = {real for chain in chains for real in chain} if self.write else set()
        self._note({real: one for real, one in results.items() if real not in chained})

    def _note(self, results: Mapping[str, Rewritten]) -> None:
        for real, result in results.items():
            index = self.index_of.get(real)
            if index is None or not (
                self._concerns(self.files[index]) or result.outcome.status in ("migrated", "failed")
            ):
                continue
            known = self.done.get(index)
            if known is None or result.outcome.status != "unchanged" or result.outcome.loops:
                self.done[index] = result if self.keep and not self.write else replace(result, before=b"", after=b"")


def _buried(path: Path, died: Died) -> Rewritten:
    why = "most likely it is nested too deeply for a parser; exclude it" if died.code < 0 else "please report it"
    message = f"its worker process died ({died}): {why}. The file is unchanged"
    return rewrite.failed(shown(path), SourceError(message))


def _commit(results: Mapping[str, Rewritten]) -> Mapping[str, Rewritten]:
    """Put the new bytes of files that belong together on disk, all of them or none."""
    from amp_migrate.source.replace import Change, replace_all

    try:
        replace_all([Change(Path(real), one.after, one.before) for real, one in results.items()])
    except SourceError as error:
        at = error.path
        left = SourceError(f"left as it is, because {_shown(at, results)} belongs to it and could not be written")
        return {
            real: rewrite.failed(one.outcome.path, error if at in (None, real) else left)
            for real, one in results.items()
        }
    return results


def _shown(real: str | None, results: Mapping[str, Rewritten]) -> str | None:
    """A file as the user named it."""
    return results[real].outcome.path if real is not None and real in results else real


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
