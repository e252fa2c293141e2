"""`amp-migrate PATH --verify COMMAND`: a migration is written where the program passes with it.

Where it fails and several loops are migrated, each is tried alone, so that the others can be kept.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from amp_migrate.config import Settings
from amp_migrate.pipeline.batch import Batch
from amp_migrate.runtime.command import lines, options_of
from amp_migrate.runtime.needs import require_torch
from amp_migrate.runtime.plan import ProgramError, find_program, search_path
from amp_migrate.runtime.progress import Progress
from amp_migrate.runtime.project import program_files
from amp_migrate.runtime.report import Options, Program, Report
from amp_migrate.runtime.sources import rewritten
from amp_migrate.runtime.verify import verify

MOST_LOOPS = 12
Planned = Callable[[Settings], Batch]


def prove(
    batch: Batch, asked: Mapping[str, Any], settings: Settings, again: Planned
) -> bool:
    """Whether the program passes verify with the new texts of `batch`; tells why not, and which
    loop is to blame. `again` plans with other settings.
    """
    require_torch("--verify")
    try:
        script = find_program(asked["program"], asked["as_module"], Path.cwd())
    except ProgramError as error:
        raise click.UsageError(f"--verify: {error}") from None
    options = options_of(asked)
    texts = _texts(batch)
    report = _verified(texts, asked, settings, options)
    for line in lines(report):
        click.echo(line, err=True)
    for line in _unrun(texts, script, asked["as_module"]):
        click.echo(line, err=True)
    if report.interrupted:
        raise KeyboardInterrupt
    if report.verdict == "pass":
        return True
    click.echo(
        "amp-migrate: verify failed, so every file is as it was", err=True
    )
    quick = dataclasses.replace(
        options, quick=True, drills=False, diagnose=False, bisect=False
    )
    for line in _blame(
        batch,
        again,
        settings,
        lambda new: _verified(new, asked, settings, quick),
    ):
        click.echo(f"amp-migrate: {line}", err=True)
    return False


def _texts(batch: Batch) -> dict[str, str]:
    """The new text of each file, by its resolved path."""
    return {
        real: rewritten(real, one.before, one.after, one.encoding)
        for real, one in zip(batch.reals, batch.results, strict=True)
        if one.outcome.status == "migrated"
    }


def _verified(
    texts: Mapping[str, str],
    asked: Mapping[str, Any],
    settings: Settings,
    options: Options,
) -> Report:
    dtype = "bfloat16" if settings.dtype == "bfloat16" else "float16"
    program = Program(
        asked["program"],
        asked["arguments"],
        asked["as_module"],
        {dtype: texts},
        Path.cwd(),
        settings.device == "cuda",
    )
    progress = Progress()
    try:
        return verify(program, options, progress).report
    finally:
        progress.close()


def _unrun(
    texts: Mapping[str, str], script: Path, as_module: bool
) -> list[str]:
    """Files that the program does not import: nothing is proved of them."""
    roots = search_path(script, as_module, Path.cwd())
    own = {os.path.realpath(file) for file in program_files(script, roots)}
    return [
        f"note: not verified: {os.path.relpath(path)} is no file of this program"
        for path in sorted(texts)
        if os.path.realpath(path) not in own
    ]


def _blame(
    batch: Batch,
    again: Planned,
    settings: Settings,
    verified: Callable[[dict[str, str]], Report],
) -> list[str]:
    """A sentence for each loop that fails when it alone is migrated, and what to do."""
    loops = [
        (one.outcome.path, loop)
        for one in batch.results
        for loop in one.outcome.loops
        if loop.status == "migrated"
    ]
    names = list(dict.fromkeys(f"{path}:{loop.scope}" for path, loop in loops))
    if not 1 < len(names) <= MOST_LOOPS:
        return []
    guilty, said = [], []
    for name in names:
        click.echo(f"amp-migrate: trying {name} alone", err=True)
        others = tuple(other for other in names if other != name)
        texts = _texts(
            again(settings._replace(leave=(*settings.leave, *others)))
        )
        report = verified(texts) if texts else None
        found = _faults(report) if report is not None else ""
        if found:
            guilty.append(name)
            said.append(f"to blame: {name}: {found}")
    if not guilty:
        return ["no loop fails alone; they do together"]
    if len(guilty) < len(names):
        said.append(
            "to keep the others: "
            + " ".join(f"--leave {name}" for name in guilty)
        )
    return said


def _faults(report: Report) -> str:
    """The failed checks of a loop that was run; one that the program never enters is not to
    blame.
    """
    failed = [check for check in report.checks if check.verdict == "fail"]
    amp = report.runs.traces.get("amp")
    if amp is not None and amp.steps and not amp.regions:
        failed = [
            check for check in failed if not check.name.endswith(": engaged")
        ]
    return "; ".join(f"{check.name}: {check.message}" for check in failed)
