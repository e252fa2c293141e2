"""Files on their way through the migrator in company: those that belong together are read, planned
and kept together.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.display import shown
from amp_migrate.model.budget import BudgetEndedError, at_most, for_program
from amp_migrate.outcome import Alone, FileOutcome, Joint
from amp_migrate.pipeline.deep_stack import with_deep_stack
from amp_migrate.pipeline.one_file import (
    Rewritten,
    crashed,
    failed,
    out_of_depth,
    settled,
    syntax_error,
    told,
    too_much,
)
from amp_migrate.pipeline.program_texts import (
    ProgramText,
    read_text,
    readable,
    resolved_name,
)
from amp_migrate.project.errors import SourceError
from amp_migrate.project.module_graph import Project
from amp_migrate.records import NamedTuple
from amp_migrate.torch_floor import target_for

# A program of more files than this is no program but a library: its loops are planned by
# themselves, and those that ask for other files are refused.
MOST_FILES = 150
_ROUNDS = 12


@dataclass(frozen=True)
class Together:
    """What became of the files of one program, by resolved path; the first are those that were
    asked for.
    """

    members: Mapping[str, Rewritten]
    needed: bool = True
    """Whether the files that were asked for become something else in the company of the others."""

    whole: bool = True
    """Whether all came out as they were planned together."""

    @property
    def changed(self) -> dict[str, Rewritten]:
        """The members that are rewritten."""
        return _changed(self.members)

    @property
    def broken(self) -> bool:
        """Whether planning them together did not work out."""
        return not self.whole or any(
            one.outcome.status == "failed" for one in self.members.values()
        )


class Task(NamedTuple):
    """Files to be planned as one program: those whose loops are asked for, by resolved path, and
    others that are known to be needed.
    """

    paths: tuple[str, ...]
    related: tuple[str, ...] = ()


def first_look(
    task: Task, settings: Settings, project: Project
) -> Together | tuple[str, ...]:
    """What becomes of a file by itself; or the other files with which more of it may be migrated,
    and then it is planned with these.
    """
    try:
        return with_deep_stack(_first_look, task.paths[0], settings, project)
    finally:
        _forget()


def _first_look(
    real: str, settings: Settings, project: Project
) -> Together | tuple[str, ...]:
    path = project.writable.get(real, real)
    try:
        texts = {real: read_text(path)}
    except SourceError as error:
        return Together({real: failed(path, error)})
    look = _migrated(
        texts, _for_program((path,), settings, project), project, hold=True
    )
    return look.company or Together(look.members, needed=False)


def rewrite_task(task: Task, settings: Settings, project: Project) -> Together:
    """Plan and rewrite the files of a task; see `rewrite_together`."""
    paths = [project.writable.get(real, real) for real in task.paths]
    return rewrite_together(paths, settings, project, task.related)


def rewrite_together(
    paths: Sequence[str],
    settings: Settings,
    project: Project,
    related: Sequence[str] = (),
) -> Together:
    """Migrate the files at `paths` in memory, with as many others of `project` as their loops need.

    `related` are such others, by resolved path, where some are known already; then the files are
    planned by themselves only if it does not work out together. Never raises for what a file or the
    migrator does wrong: that is told of the file.
    """
    try:
        return with_deep_stack(
            _rewritten_together, paths, settings, project, related
        )
    finally:
        _forget()


def _forget() -> None:
    models = sys.modules.get("amp_migrate.pipeline.models")
    if models is not None and hasattr(models, "forget"):
        models.forget()


def _rewritten_together(
    paths: Sequence[str],
    settings: Settings,
    project: Project,
    related: Sequence[str],
) -> Together:
    settings = _for_program(paths, settings, project)
    texts: dict[str, ProgramText] = {}
    for path in paths:
        try:
            texts[resolved_name(path)] = read_text(path)
        except SourceError as error:
            return Together(
                {
                    resolved_name(p): failed(p, error)
                    if p == path
                    else _unchanged(p)
                    for p in paths
                }
            )
    try:
        return _as_program(texts, related, settings, project)
    except BudgetEndedError:
        return _each_alone(texts, settings, project)


def _each_alone(
    texts: Mapping[str, ProgramText], settings: Settings, project: Project
) -> Together:
    """What becomes of files that lead to more than can be followed: a library, too. Loops that ask
    for others are refused: what these may say of them, nobody has looked at.
    """
    members: dict[str, Rewritten] = {}
    for real, text in texts.items():
        own = {real: text}
        done = _migrated(own, settings, project, alone=Alone.TOO_MUCH)
        members[real] = done.members[real]
    return Together(members, needed=False)


def _as_program(
    texts: Mapping[str, ProgramText],
    related: Sequence[str],
    settings: Settings,
    project: Project,
) -> Together:
    """Files with all that they need. Raises BudgetEndedError where that is too much."""
    alone = None if related else _migrated(texts, settings, project)
    grown = _grown(
        texts, related if alone is None else alone.company, settings, project
    )
    if alone is not None and len(grown) == len(texts):
        return Together(alone.members, needed=False)
    best = _migrated(grown, settings, project)
    # Whoever names one file wants no other one rewritten.
    locked = any(
        real not in texts and real not in project.writable
        for real in best.changed
    )
    if alone is None and not (locked or best.broken):
        return Together(best.members)
    if locked:
        best = alone = _migrated(
            texts, settings, project, alone=Alone.NOT_NAMED
        )
    alone = alone or _migrated(texts, settings, project)
    best = _better(alone, best, len(texts))
    needed = any(
        best.members[real].after != one.after
        for real, one in alone.members.items()
    )
    return Together(best.members, needed, whole=not locked)


def _grown(
    texts: Mapping[str, ProgramText],
    company: Sequence[str],
    settings: Settings,
    project: Project,
) -> dict[str, ProgramText]:
    """The files with those that they ask for, and those that these ask for, as long as it is a
    program and no library. All rounds together may cost what the last of them may.

    Raises BudgetEndedError where they cost more, or are more files than a program has.
    """
    grown = dict(texts)
    spent = 0
    for turn in range(_ROUNDS + 1):
        more = {
            real: text
            for real in company
            if real not in grown and (text := readable(real, project))
        }
        if not more:
            return grown
        if turn == _ROUNDS or len(grown) + len(more) > MOST_FILES:
            break
        grown |= more
        _forget()  # a larger program asks nothing of the models of smaller ones
        steps = for_program(_texts(grown)) - spent
        with at_most(steps) as budget:
            before = budget.left
            company = _company(grown, settings, project)
            spent += before - budget.left
    raise BudgetEndedError


def _texts(files: Mapping[str, ProgramText]) -> dict[str, str]:
    return {file.path: file.source.text for file in files.values()}


def _company(
    texts: Mapping[str, ProgramText], settings: Settings, project: Project
) -> tuple[str, ...]:
    """The files that those at hand ask for; none where planning them fails, which the rewrite will
    tell of.
    """
    from amp_migrate.pipeline.migrate import company_of

    try:
        return company_of(_texts(texts), settings, project)
    except (BudgetEndedError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return ()


def _for_program(
    paths: Sequence[str], settings: Settings, project: Project
) -> Settings:
    """Settings with the oldest torch that the program's own requirements name, where the user
    named none.
    """
    if settings.target_torch is not None:
        return settings
    folders = [Path(resolved_name(path)).parent for path in paths]
    found = (target_for(folder, project.top or folder) for folder in folders)
    bounds = [
        bound
        for one in found
        if (bound := one or settings.admitted_torch) is not None
    ]
    return settings._replace(target_torch=min(bounds)) if bounds else settings


def _changed(members: Mapping[str, Rewritten]) -> dict[str, Rewritten]:
    return {
        real: one
        for real, one in members.items()
        if one.outcome.status == "migrated"
    }


@dataclass(frozen=True)
class _Round:
    members: Mapping[str, Rewritten]
    company: tuple[str, ...] = ()

    @property
    def changed(self) -> dict[str, Rewritten]:
        return _changed(self.members)

    @property
    def broken(self) -> bool:
        return any(
            one.outcome.status == "failed" for one in self.members.values()
        )


def _migrated(
    texts: Mapping[str, ProgramText],
    settings: Settings,
    project: Project,
    *,
    hold: bool = False,
    alone: Alone | None = None,
) -> _Round:
    """Migrate files as one program; with `hold`, only plan them where they ask for others.
    `alone`: why these do not join it.
    """
    first = next(iter(texts.values()))
    try:
        from amp_migrate.pipeline.migrate import migrate_texts

        with at_most(for_program(_texts(texts))):
            joint = migrate_texts(
                _texts(texts), settings, project, hold=hold, alone=alone
            )
        if hold and joint.company:
            return _Round({}, joint.company)
        members = _members(texts, joint, settings)
    except SyntaxError as error:
        return _lost(texts, failed(first.path, syntax_error(error)))
    except (RecursionError, MemoryError) as error:
        read = [text.source.text for text in texts.values()]
        return _lost(texts, out_of_depth(first.path, read, error))
    except BudgetEndedError:
        if len(texts) > 1:
            raise
        return _lost(texts, too_much(first.path))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # One file's mishap must not cost the others; a panic in LibCST is no Exception.
        return _lost(texts, crashed(first.path, error))
    return _Round(members, joint.company)


def _members(
    texts: Mapping[str, ProgramText], joint: Joint, settings: Settings
) -> dict[str, Rewritten]:
    """What became of the files of a program."""
    found: dict[str, Rewritten] = {}
    for real, text in texts.items():
        outcome = joint.outcomes[text.path]
        outcome = told(outcome, text.source.text, settings)
        found[real] = _placed(text, outcome)
    return found


def _placed(text: ProgramText, outcome: FileOutcome) -> Rewritten:
    """The outcome of a text as that of its file."""
    try:
        placed = settled(text.source.placed(outcome))
        if outcome.output is None:
            return Rewritten(placed, encoding=text.source.encoding)
        return Rewritten(
            placed,
            text.data,
            text.source.encode(outcome.output),
            text.source.encoding,
        )
    except SourceError as error:
        return failed(text.path, error)


def _lost(texts: Mapping[str, ProgramText], first: Rewritten) -> _Round:
    others = {real: _unchanged(text.path) for real, text in texts.items()}
    return _Round({**others, next(iter(texts)): first})


def _better(alone: _Round, joint: _Round, asked: int) -> _Round:
    """The joint result, unless something in it failed that did not fail alone: then the others
    keep what they had, for what was planned with the failed one is nothing without it.
    """
    if not joint.broken:
        return joint
    own = list(alone.members)[:asked]
    members = {
        r: alone.members[r]
        if "migrated"
        in (alone.members[r].outcome.status, joint.members[r].outcome.status)
        else joint.members[r]
        for r in own
    }
    return _Round(members)


def _unchanged(path: str) -> Rewritten:
    return Rewritten(FileOutcome(shown(path), "unchanged"))
