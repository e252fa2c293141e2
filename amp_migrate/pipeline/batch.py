"""Many files through the migrator: sifted, planned in workers, put back program by program,
reported in order.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from amp_migrate.config import Settings
from amp_migrate.display import shown
from amp_migrate.pipeline import atomic_write
from amp_migrate.pipeline import one_file as rewrite
from amp_migrate.pipeline import workers as parallel
from amp_migrate.pipeline.grouping import (
    apart,
    conflicts,
    joined,
    merged,
    tasks_of,
)
from amp_migrate.pipeline.interrupts import (
    held_interrupt,
    termination_as_interrupt,
)
from amp_migrate.pipeline.one_file import Rewritten
from amp_migrate.pipeline.programs import (
    Task,
    Together,
    first_look,
    rewrite_task,
)
from amp_migrate.project.discovery import Found, surroundings
from amp_migrate.project.errors import SourceError
from amp_migrate.project.module_graph import Index, Project
from amp_migrate.regular_files import read_nearby

# A bar for a run that ends before it is read is noise.
WORTH_A_BAR = 20


@dataclass(frozen=True)
class Batch:
    """Results in the order of the files; with `interrupted`, of those that were done by then."""

    results: tuple[Rewritten, ...]
    total: int
    interrupted: bool = False
    reals: tuple[str, ...] = ()
    """The resolved path of each result."""

    def written(self) -> Batch:
        """The same once all new bytes are on disk, together or not at all."""
        new = {
            real: one
            for real, one in zip(self.reals, self.results, strict=True)
            if one.outcome.status == "migrated"
        }
        with held_interrupt():
            done = _commit(new)
        results = [
            done.get(real, one)
            for real, one in zip(self.reals, self.results, strict=True)
        ]
        return replace(self, results=tuple(results))


def rewrite_all(
    files: Sequence[Found],
    settings: Settings,
    write: bool,
    asked: Collection[str] | None = None,
    keep: bool = True,
) -> Batch:
    """Migrate `files`, on disk if `write`, else in memory; with `keep` the results hold the bytes
    before and after.

    With `asked` (resolved paths), only the loops of these files are migrated and reported. The
    other files are read for who calls whom, and are rewritten, and then reported, where a loop that
    is asked for needs it.
    """
    run = _Run(files, settings, write, asked, keep)
    try:
        with termination_as_interrupt():
            run.all()
    except KeyboardInterrupt:
        return Batch(run.ordered(), run.total(), True, run.reals())
    return Batch(run.ordered(), run.total(), False, run.reals())


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
        self.sizes: dict[str, int] = {}
        self.project = Project()
        self.index_of = {found.real: index for index, found in enumerate(files)}

    def total(self) -> int:
        """How many files are to be told about."""
        return sum(self._concerns(found) for found in self.files)

    def _concerns(self, found: Found) -> bool:
        return (
            self.asked is None
            or found.real in self.asked
            or found.error is not None
        )

    def ordered(self) -> tuple[Rewritten, ...]:
        """What is settled, in the order of the files."""
        return tuple(self.done[index] for index in sorted(self.done))

    def reals(self) -> tuple[str, ...]:
        """Their resolved paths."""
        return tuple(self.files[index].real for index in sorted(self.done))

    def all(self) -> None:
        """Sift, plan and write. A file that no other one has to do with is written as soon as it
        is planned; each program of several files is planned once.
        """
        self.sizes, self.project = self._sift()
        held: list[Together] = []
        related: dict[str, tuple[str, ...]] = {}
        with _bar(len(self.sizes)) as advance:
            for real, look in self._looked():
                if not isinstance(look, Together):
                    related[real] = look
                elif len(look.members) == 1 and self.project.alone(real):
                    self._settle(*joined([look]))
                else:
                    held.append(look)
                advance()
        for task, done in self._planned(
            tasks_of(related, self.sizes, self.project)
        ):
            if done.broken and len(task.paths) > 1:
                held += [one for _, one in self._planned(apart(task, related))]
            else:
                held.append(done)
        while again := conflicts(held):
            old = {id(program) for group in again for program in group}
            held = [program for program in held if id(program) not in old]
            held += [done for _, done in self._planned(merged(again))]
        self._settle(*joined(held))

    def _looked(self) -> Iterator[tuple[str, Together | tuple[str, ...]]]:
        """What becomes of each file by itself, or which others it needs. Where only some files are
        asked for, these are planned with all that they need at once.
        """
        tasks = [Task((real,)) for real in self.sizes]
        if self.asked is None:
            for task, look in self._each(first_look, tasks):
                yield task.paths[0], look
            return
        for task, done in self._each(rewrite_task, tasks):
            [real] = task.paths
            yield (
                real,
                done if done.needed else Together({real: done.members[real]}),
            )

    def _planned(
        self, tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, Together]]:
        yield from self._each(rewrite_task, tasks)

    def _each(
        self, function: Callable[..., Any], tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, Any]]:
        """Call `function` on every task, in workers where that pays."""
        # The largest first, so that the last worker is not left alone with it.
        order = sorted(tasks, key=lambda task: -self._size(task))
        call = functools.partial(
            function, settings=self.settings, project=self.project
        )
        workers = parallel.workers_for([self._size(task) for task in order])
        with contextlib.closing(parallel.each(call, order, workers)) as results:
            for position, result in results:
                task = order[position]
                if isinstance(result, parallel.Died):
                    buried = {
                        real: _buried(Path(self._name(real)), result)
                        for real in task.paths
                    }
                    yield task, Together(buried)
                else:
                    yield task, result

    def _size(self, task: Task) -> int:
        return sum(
            self.sizes.get(real, 0) for real in (*task.paths, *task.related)
        )

    def _sift(self) -> tuple[dict[str, int], Project]:
        """Settle what needs no parser; the sizes of the rest by resolved path, and who imports
        whom.
        """
        sizes: dict[str, int] = {}
        index = Index(found.real for found in self.files if not found.error)
        others: list[Found] = []
        for number, found in enumerate(self.files):
            if found.error:
                self.done[number] = rewrite.failed(
                    shown(found.path), found.error
                )
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
            index.add(real, read_nearby(real) or b"")

    def _with_surroundings(
        self, index: Index, training: Iterable[str]
    ) -> Project:
        """Files beside those that were named are not rewritten, but may call what is in them."""
        self._index(index, surroundings(training, index.known))
        return index.project(
            {
                found.real: str(found.path)
                for found in self.files
                if not found.error
            }
        )

    def _name(self, real: str) -> str:
        """The path as the user gave it."""
        index = self.index_of.get(real)
        return str(self.files[index].path) if index is not None else real

    def _settle(
        self, results: Mapping[str, Rewritten], chains: Iterable[list[str]]
    ) -> None:
        for chain in chains if self.write else ():
            with held_interrupt():
                self._note(_commit({real: results[real] for real in chain}))
        chained = (
            {real for chain in chains for real in chain}
            if self.write
            else set()
        )
        self._note(
            {real: one for real, one in results.items() if real not in chained}
        )

    def _note(self, results: Mapping[str, Rewritten]) -> None:
        for real, result in results.items():
            index = self.index_of.get(real)
            outcome = result.outcome
            tells = outcome.status in ("migrated", "failed") or bool(
                outcome.notes
            )
            if index is None or not (
                self._concerns(self.files[index]) or tells
            ):
                continue
            known = self.done.get(index)
            if (
                known is None
                or outcome.status != "unchanged"
                or outcome.loops
                or outcome.notes
            ):
                self.done[index] = (
                    result
                    if self.keep and not self.write
                    else replace(result, before=b"", after=b"")
                )


def _buried(path: Path, died: parallel.Died) -> Rewritten:
    why = (
        "most likely it is nested too deeply for a parser; exclude it"
        if died.code < 0
        else "please report it"
    )
    message = f"its worker process died ({died}): {why}. The file is unchanged"
    return rewrite.failed(shown(path), SourceError(message))


def _commit(results: Mapping[str, Rewritten]) -> Mapping[str, Rewritten]:
    """Put the new bytes of files that belong together on disk, all of them or none."""
    changes = [
        atomic_write.Change(Path(real), one.after, one.before)
        for real, one in results.items()
    ]
    try:
        atomic_write.replace_all(changes)
    except SourceError as error:
        at = error.path
        left = SourceError(
            f"left as it is, because {_shown(at, results)} belongs to it and could not be written"
        )
        return {
            real: rewrite.failed(
                one.outcome.path, error if at in (None, real) else left
            )
            for real, one in results.items()
        }
    return results


def _shown(real: str | None, results: Mapping[str, Rewritten]) -> str | None:
    """A file as the user named it."""
    return (
        results[real].outcome.path
        if real is not None and real in results
        else real
    )


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
