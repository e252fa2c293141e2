"""Makes the runs of a program: each with its job, in its folder, with its traces named as the user
knows them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amp_migrate.runtime.cells import by_cell
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.report import Options, Program
from amp_migrate.runtime.supervise import Supervisor
from amp_migrate.runtime.trace import Trace

REFERENCE_STEPS = 2


class Runner:
    """Runs `program` in subfolders of `folder`."""

    def __init__(
        self,
        program: Program,
        options: Options,
        supervisor: Supervisor,
        folder: Path,
    ) -> None:
        self.program = program
        self.options = options
        self._supervisor = supervisor
        self._folder = folder
        self.seeds: tuple[tuple[int, ...], ...] = ()
        """What the program's own seeds are, where it would take others in every run."""

    def run(
        self,
        name: str,
        home: str = "",
        more: tuple[str, ...] = (),
        **changes: Any,
    ) -> list[Trace]:
        """One run, with these changes to its job; a trace for each rank. Runs of one `home` share a
        copy of the working folder; `more` are arguments behind the program's own.
        """
        options = self.options
        folder = self._folder / _slug(name)
        job = Job(
            name=name,
            program=self.program.program,
            folder=str(folder),
            cwd=str(
                self._cwd(
                    self._folder / _slug(home) if home else folder, bool(home)
                )
            ),
            arguments=(*self.program.arguments, *more),
            as_module=self.program.as_module,
            device=options.device,
            seed=options.seed,
            steps=options.steps,
            warmup=min(5, options.steps // 4),
            seeds=self.seeds,
            carried=self.program.carried,
            shown=self._shown(),
            record_gradients=0 if options.quick else REFERENCE_STEPS,
            same_masks=options.device == "cuda",
        )
        traces = self._supervisor.run(
            self._moved(dataclasses.replace(job, **changes))
        )
        for trace in traces:
            self._as_here(trace, job.cwd)
        return traces

    def tensors(self, name: str, rank: int = 0) -> Path:
        """Where a run has left its parameters and gradients."""
        return self._folder / _slug(name) / f"rank{rank}"

    def _moved(self, job: Job) -> Job:
        """The job with its rewritten files where they are in a scratch copy, too."""
        here = os.path.realpath(self.program.cwd) + os.sep
        inside = {
            path: text
            for path, text in job.rewrites.items()
            if path.startswith(here)
        }
        there = {
            os.path.realpath(Path(job.cwd, path.removeprefix(here))): text
            for path, text in inside.items()
        }
        shown = {
            os.path.realpath(Path(job.cwd, path.removeprefix(here))): file
            for path, file in job.shown.items()
            if path.startswith(here)
        }
        return dataclasses.replace(
            job,
            rewrites={**job.rewrites, **there},
            shown={**job.shown, **shown},
        )

    def _shown(self) -> dict[str, str]:
        """Found wherever the program goes."""
        cwd = self.program.cwd
        return {
            path: os.path.abspath(cwd / file)
            for path, file in self.program.shown.items()
        }

    def _as_here(self, trace: Trace, cwd: str) -> None:
        """Call the files of a scratch copy by the names that the user knows."""
        here = str(self.program.cwd)
        trace.loss_sites = [
            site.replace(cwd, here, 1) for site in trace.loss_sites
        ]
        trace.violations = [
            dataclasses.replace(v, file=v.file.replace(cwd, here, 1))
            for v in trace.violations
        ]
        trace.step_sites = [
            site.replace(cwd, here, 1) for site in trace.step_sites
        ]
        trace.not_entered = [
            (path.replace(cwd, here, 1), first, last, changed)
            for path, first, last, changed in trace.not_entered
        ]
        trace.processes = [
            site.replace(cwd, here, 1) for site in trace.processes
        ]
        trace.places = {
            name: [
                dataclasses.replace(one, file=one.file.replace(cwd, here, 1))
                for one in found
            ]
            for name, found in trace.places.items()
        }
        trace.error = trace.error.replace(cwd, here)
        trace.raised_at = trace.raised_at.replace(cwd, here, 1)
        for path, file in self._shown().items():
            self._as_given(trace, file, self.program.shown[path])
        by_cell(trace)

    def _as_given(self, trace: Trace, file: str, given: str) -> None:
        """Call a file by the name that the user gave it."""

        def named(text: str) -> str:
            return text.replace(file, given)

        trace.error, trace.raised_at = (
            named(trace.error),
            named(trace.raised_at),
        )
        for found in trace.diagnosis.values():
            if "eps_at" in found:
                found["eps_at"] = named(found["eps_at"])
        for sites in (trace.loss_places, trace.step_sites, trace.processes):
            sites[:] = map(named, sites)
        trace.violations = [
            dataclasses.replace(one, file=named(one.file))
            for one in trace.violations
        ]
        trace.not_entered = [
            (named(path), first, last, changed)
            for path, first, last, changed in trace.not_entered
        ]

    def _cwd(self, folder: Path, shared: bool) -> Path:
        if not (self.options.scratch or shared):
            return self.program.cwd
        copy = folder / "scratch"
        if not copy.exists():
            ignored = shutil.ignore_patterns(".git", "__pycache__")
            shutil.copytree(
                self.program.cwd, copy, symlinks=True, ignore=ignored
            )
        return copy

    @contextlib.contextmanager
    def telling_written(self, notes: list[str]) -> Iterator[None]:
        """Whatever is new in the user's folder afterwards, the program has written: a note."""
        before = _files(self.program.cwd)
        try:
            yield
        finally:
            after = _files(self.program.cwd)
            written = sorted(
                str(path.relative_to(self.program.cwd))
                for path in after
                if before.get(path) != after[path]
            )
            if written:
                notes.append(_told(written, in_copies=self.options.scratch))


def _told(written: list[str], *, in_copies: bool) -> str:
    more = f" and {len(written) - 5} more" if len(written) > 5 else ""
    files = f"{', '.join(written[:5])}{more}"
    if in_copies:
        return (
            f"{files} changed here, and the program ran in copies: it names this folder, or "
            "something else has written there"
        )
    return f"the program itself wrote {files} here; --scratch has it write into copies"


def _files(folder: Path) -> dict[Path, int]:
    """Files of `folder` and its subfolders (no deeper: it may be large), with the time of their
    last change.
    """
    found: dict[Path, int] = {}
    for path in itertools.islice(
        itertools.chain(folder.glob("*"), folder.glob("*/*")), 10_000
    ):
        with contextlib.suppress(OSError):
            if path.is_file():
                found[path] = path.stat().st_mtime_ns
    return found


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)[:100]
