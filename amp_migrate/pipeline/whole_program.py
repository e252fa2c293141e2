"""A program of a few files through the migrator, in this process and in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.pipeline.grouping import (
    apart,
    conflicts,
    joined,
    merged,
    tasks_of,
)
from amp_migrate.pipeline.one_file import Rewritten, sift_file
from amp_migrate.pipeline.programs import (
    Task,
    Together,
    first_look,
    rewrite_task,
)
from amp_migrate.project.module_graph import Index, Project


def rewrite_program(
    paths: Sequence[Path], settings: Settings
) -> dict[Path, Rewritten]:
    """Migrate the files of one program in memory, in this process; a result for each."""
    reals = {str(path.resolve()): path for path in paths}
    index = Index(reals)
    results: dict[str, Rewritten] = {}
    for real, path in reals.items():
        sifted, data = sift_file(path)
        index.add(real, data)
        if isinstance(sifted, Rewritten):
            results[real] = sifted
    project = index.project({real: str(path) for real, path in reals.items()})
    training = [real for real in reals if real not in results]
    joint, _ = joined(_planned(training, settings, project))
    told = {
        real: one
        for real, one in joint.items()
        if real not in results
        or one.outcome.status != "unchanged"
        or one.outcome.notes
    }
    return {path: {**results, **told}[real] for real, path in reals.items()}


def _planned(
    training: Sequence[str], settings: Settings, project: Project
) -> list[Together]:
    looks = {
        real: first_look(Task((real,)), settings, project) for real in training
    }
    held = [look for look in looks.values() if isinstance(look, Together)]
    related = {
        real: look
        for real, look in looks.items()
        if not isinstance(look, Together)
    }
    for task in tasks_of(related, training, project):
        done = rewrite_task(task, settings, project)
        if done.broken and len(task.paths) > 1:
            held += [
                rewrite_task(one, settings, project)
                for one in apart(task, related)
            ]
        else:
            held.append(done)
    while again := conflicts(held):
        old = {id(program) for group in again for program in group}
        held = [program for program in held if id(program) not in old]
        held += [
            rewrite_task(task, settings, project) for task in merged(again)
        ]
    return held
