"""The tree around the files that are linted: which of them the rules concern, and who imports
whom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

from amp_migrate.display import shown
from amp_migrate.pipeline.lint import files
from amp_migrate.pipeline.lint.results import Report
from amp_migrate.pipeline.lint.units import Around, units
from amp_migrate.project.discovery import Found, surroundings
from amp_migrate.project.errors import reading
from amp_migrate.project.module_graph import Index, Project
from amp_migrate.project.prefilter import (
    breaks_in_half,
    hands_values_on,
    is_notebook,
    matters_to_others,
    rounds_in_half,
    trains_in_bfloat16,
    trains_with_amp,
    turns_to_arrays,
)
from amp_migrate.records import NamedTuple
from amp_migrate.regular_files import read, read_nearby


class Task(NamedTuple):
    """Files that are linted in one go."""

    paths: tuple[Path, ...]
    near: tuple[Path, ...] = ()
    """What is read with them."""
    others: frozenset[Path] = frozenset()
    """Those of `near` that have a task of their own, in better company."""
    size: int = 0
    """In bytes, of all."""


class Tree:
    """Files that were found, read once."""

    def __init__(
        self,
        found: Sequence[Found],
        thorough: Callable[[], bool] = lambda: False,
    ) -> None:
        """`thorough`: whether rules that are off by default are asked for, too, which read files in
        more company.
        """
        self._thorough = thorough
        self.found = [one for one in found if not one.error]
        self.paths = {one.real: one.path for one in self.found}
        """As they are shown, by resolved path."""
        self._index = Index(self.paths)
        self._sizes: dict[str, int] = {}
        self._wanted: dict[str, int] = {}
        self._seeds: set[str] = set()
        self._told: dict[tuple[Callable[[bytes], bool], str], bool] = {}
        self._brain: set[str] = set()
        self._arrays: set[str] = set()

    def sift(self, one: Found) -> Report | None:
        """Note what a file imports; the report of one that needs no parser."""
        try:
            data = read(one.path)
        except OSError as error:
            return files.unreadable(shown(one.path), reading(error))
        self._note(one.real, data)
        if not files.concerns(data, one.path.name):
            return Report(shown(one.path))
        self._wanted[one.real] = len(data)
        if trains_with_amp(data) and not is_notebook(one.path.name):
            self._seeds.add(one.real)
        return None

    def _note(self, real: str, data: bytes) -> None:
        """Remember of a file what the questions about the whole tree need."""
        self._sizes[real] = len(data)
        self._index.add(real, data)
        if trains_in_bfloat16(data):
            self._brain.add(real)
        if turns_to_arrays(data):
            self._arrays.add(real)

    @cached_property
    def project(self) -> Project:
        """Who imports whom, in the tree and around the files that are of interest."""
        for real in surroundings(self._wanted, self._index.known):
            self._note(real, read_nearby(real) or b"")
        return self._index.project(
            {one.real: str(one.path) for one in self.found}
        )

    def _tells(
        self, question: Callable[[bytes], bool]
    ) -> Callable[[str], bool]:
        """A question about the bytes of a file, asked once of each: few files are near enough to
        any that trains for it to come up.
        """

        def answer(real: str) -> bool:
            key = (question, real)
            if key not in self._told:
                self._told[key] = question(read_nearby(real) or b"")
            return self._told[key]

        return answer

    @cached_property
    def _breaking(self) -> Callable[[str], bool]:
        return self._tells(
            rounds_in_half if self._thorough() else breaks_in_half
        )

    def _breaks(self, real: str) -> bool:
        return self._breaking(real)

    def _matters(self, real: str) -> bool:
        return self._tells(matters_to_others)(real) or self._breaks(real)

    def tasks(self) -> list[Task]:
        """What there is to lint, the largest first, so that the last worker is not left alone with
        it.
        """
        around = Around(
            self.project,
            self._sizes,
            self._seeds,
            self._matters,
            self._breaks,
            self._tells(hands_values_on),
            self._brain,
            self._arrays,
        )
        seeds = [real for real in self._wanted if real in self._seeds]
        tasks = [
            self._task((real,), ())
            for real in self._wanted
            if real not in self._seeds
        ]
        tasks += [
            self._task(unit.seeds, unit.near) for unit in units(seeds, around)
        ]
        return sorted(tasks, key=lambda task: -task.size)

    def _task(self, seeds: Iterable[str], near: Iterable[str]) -> Task:
        own, beside = (
            tuple(seeds),
            tuple(file for file in near if not is_notebook(file)),
        )
        return Task(
            tuple(self.paths[real] for real in own),
            tuple(self.paths.get(real, Path(real)) for real in beside),
            frozenset(
                self.paths[real] for real in beside if real in self._seeds
            ),
            sum(self._sizes[real] for real in (*own, *beside)),
        )
