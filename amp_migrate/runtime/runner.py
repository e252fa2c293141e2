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

from amp_migrate.runtime.job import Job
from amp_migrate.runtime.report import Options, Program
from amp_migrate.runtime.supervise import Supervisor
from amp_migrate.runtime.trace import Trace

REFERENCE_STEPS = 2


class Runner:
    """Runs `program` in subfolders of `folder`."""

    def __init__(
        self, program: Program, options: Options, supervisor: Supervisor, folder: Path
    ) -> None:
        self.program = program
        self.options = options
        self._supervisor = supervisor
        self._folder = folder
        self.seeds: tuple[int, ...] = ()
        """What the program's own seeds are, where it would take others in every run."""

    def run(self, name: str, **changes: Any) -> list[Trace]:
        """One run, with these changes to its job; a trace for each rank."""
        options = self.options
        folder = self._folder / _slug(name)
        job = Job(
            name=name,
            program=self.program.program,
            folder=str(folder),
            cwd=str(self._cwd(folder)),
            arguments=self.program.arguments,
            as_module=self.program.as_module,
            device=options.device,
            seed=options.seed,
            steps=options.steps,
            warmup=min(5, options.steps // 4),
            seeds=self.seeds,
            carried=self.program.carried,
            record_gradients=REFERENCE_STEPS,
            same_masks=options.device == "cuda",
        )
        traces = self._supervisor.run(self._moved(dataclasses.replace(job, **changes)))
        for trace in traces:
            self._as_here(trace, job.cwd)
        return traces

    def tensors(self, name: str, rank: int = 0) -> Path:
        """Where a run has left its parameters and gradients."""
        return self._folder / _slug(name) / f"rank{rank}"

    def _moved(self, job: Job) -> Job:
        """The job with its rewritten files where they are in a scratch copy, too."""
        here = os.path.realpath(self.program.cwd) + os.sep
        inside = {path: text for path, text in job.rewrites.items() if path.startswith(here)}
        there = {
            os.path.realpath(Path(job.cwd, path.removeprefix(here))): text
            for path, text in inside.items()
        }
        return dataclasses.replace(job, rewrites={**job.rewrites, **there})

    def _as_here(self, trace: Trace, cwd: str) -> None:
        """Call the files of a scratch copy by the names that the user knows."""
        here = str(self.program.cwd)
        trace.loss_sites = [site.replace(cwd, here, 1) for site in trace.loss_sites]
        trace.violations = [
            dataclasses.replace(v, file=v.file.replace(cwd, here, 1)) for v in trace.violations
        ]
        trace.step_sites = [site.replace(cwd, here, 1) for site in trace.step_sites]
        trace.not_entered = [
            (path.replace(cwd, here, 1), first, last, changed)
            for path, first, last, changed in trace.not_entered
        ]
        trace.processes = [site.replace(cwd, here, 1) for site in trace.processes]
        trace.places = {
            name: [dataclasses.replace(one, file=one.file.replace(cwd, here, 1)) for one in found]
            for name, found in trace.places.items()
        }
        trace.error = trace.error.replace(cwd, here)
        trace.raised_at = trace.raised_at.replace(cwd, here, 1)

    def _cwd(self, folder: Path) -> Path:
        if not self.options.scratch:
            return self.program.cwd
        copy = folder / "scratch"
        shutil.copytree(
            self.program.cwd,
            copy,
            symlinks=True,
            ignore=shutil.ignore_patterns(".git", "__pycache__"),
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
                more = f" and {len(written) - 5} more" if len(written) > 5 else ""
                notes.append(
                    f"the program itself wrote {', '.join(written[:5])}{more} here; --scratch has "
                    "it write into copies"
                )


def _files(folder: Path) -> dict[Path, int]:
    """Files of `folder` and its subfolders (no deeper: it may be large), with the time of their
    last change.
    """
    found: dict[Path, int] = {}
    for path in itertools.islice(itertools.chain(folder.glob("*"), folder.glob("*/*")), 10_000):
        with contextlib.suppress(OSError):
            if path.is_file():
                found[path] = path.stat().st_mtime_ns
    return found


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)[:100]
