"""Files of one program from text to outcome: plan, write, prove. One file is a program, too."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from amp_migrate.apex import migrate_apex
from amp_migrate.config import Settings
from amp_migrate.model.autocast.frameworks import names_framework
from amp_migrate.model.program import Program
from amp_migrate.outcome import Alone, FileOutcome, Joint, LoopOutcome
from amp_migrate.pipeline.existing_amp import repaired
from amp_migrate.pipeline.models import forget, program_of
from amp_migrate.pipeline.naming import Named, declared, named
from amp_migrate.pipeline.prove import (
    Blocked,
    new_mistakes,
    still_blocked,
    unstable,
)
from amp_migrate.pipeline.write import all_or_none, written
from amp_migrate.planner.files.file_plan import Plan
from amp_migrate.planner.half_safety.naming import Unnamed
from amp_migrate.planner.plan import Planner, planned
from amp_migrate.project.module_graph import Project
from amp_migrate.records import NamedTuple

Switches = Mapping[str, Mapping[str, tuple[str, ...]]]
UnnamedIn = Mapping[tuple[str, str], tuple[Unnamed, ...]]
"""What needs a name, by path and scope of its loop."""


def migrate_text(
    text: str, path: str, settings: Settings, *, guarded: bool = True
) -> FileOutcome:
    """Plan and rewrite one module by itself.

    `text` has no byte order mark and its own line ends. Nothing is written here;
    `FileOutcome.output` is the new text. `guarded=False` leaves out the second run, for the guard's
    own use.
    """
    try:
        return migrate_texts({path: text}, settings, guarded=guarded).outcomes[
            path
        ]
    finally:
        forget()


def migrate_texts(
    texts: Mapping[str, str],
    settings: Settings,
    project: Project | None = None,
    *,
    guarded: bool = True,
    switches: Switches | None = None,
    hold: bool = False,
    alone: Alone | None = None,
    blocked: Blocked | None = None,
) -> Joint:
    """Plan and rewrite the files of one program, all that belong together or none.

    `texts` by path; `project` is the tree around them, whose other files may turn out to be needed.
    `switches`: what turns AMP on, by path and scope, where it is known beforehand
    (`apex.Unapexed.switches`). With `hold`, nothing is rewritten where other files are needed:
    only these are told; `alone`: why none of them joins; `blocked`: loops that stay as they are.
    """
    if guarded and switches is None:
        joint = _with_apex(texts, settings, project, alone) or migrate_texts(
            texts, settings, project, switches={}, hold=hold, alone=alone
        )
        is_held = hold and bool(joint.company)
        return joint if is_held else _repaired(joint, texts, settings)
    if not any(
        "backward" in text or names_framework(text) for text in texts.values()
    ):
        return Joint({path: FileOutcome(path, "unchanged") for path in texts})
    try:
        program = program_of(texts)
    except SyntaxError as error:
        return _unparsable(texts, error)
    how = _How(settings, project, guarded, switches, hold, alone, blocked or {})
    return _with_names(program, texts, how)


@dataclass(frozen=True)
class _How:
    """How a program is migrated: what `migrate_texts` was given beside the texts."""

    settings: Settings
    project: Project | None
    guarded: bool
    switches: Switches | None
    hold: bool
    alone: Alone | None
    blocked: Blocked


def _with_names(program: Program, texts: Mapping[str, str], how: _How) -> Joint:
    """What becomes of a program; where loops are refused for what has no name, with one for it."""
    joint, unnamed = _proved(program, texts, how)
    while unnamed:
        trial = _trial(program, unnamed)
        if trial is None:
            break
        tried, _ = _proved(trial[0], texts, how, trial[1])
        migrated = {
            (path, loop.scope)
            for path, outcome in tried.outcomes.items()
            for loop in outcome.loops
            if loop.status == "migrated"
        }
        if unnamed.keys() <= migrated or tried.company and how.hold:
            return tried
        unnamed = {key: unnamed[key] for key in unnamed.keys() & migrated}
    return joint


def _repaired(
    joint: Joint, texts: Mapping[str, str], settings: Settings
) -> Joint:
    outcomes = {
        path: repaired(outcome, texts[path], settings)
        for path, outcome in joint.outcomes.items()
    }
    return replace(joint, outcomes=outcomes)


def _unparsable(texts: Mapping[str, str], error: SyntaxError) -> Joint:
    """The file of the error has failed, the others stay as they are."""
    named = (path for path in texts if path == error.filename)
    path = next(named, next(iter(texts)))
    others = {other: FileOutcome(other, "unchanged") for other in texts}
    return Joint({**others, path: _syntax(path, error)})


def _proved(
    program: Program,
    texts: Mapping[str, str],
    how: _How,
    names: Mapping[str, Named] | None = None,
) -> tuple[Joint, UnnamedIn]:
    """Plan, write and prove until nothing is left in the output that cannot be proved; and what
    needs a name in loops that are refused. `names`: those that the texts were given for it.
    """
    blocked = dict(how.blocked)
    while True:
        planned = _planned(
            program,
            how.settings,
            how.project,
            how.switches,
            blocked,
            hold=how.hold,
            alone=how.alone,
        )
        plans, company, unnamed = planned
        if how.hold and company:
            return Joint({}, company), unnamed
        plans = declared(program, plans, names or {})
        outcomes = all_or_none(written(program, plans, texts))
        if not how.guarded:
            return Joint(outcomes, company), unnamed
        outcomes = _stable(texts, outcomes, how, blocked)
        wrong = new_mistakes(texts, outcomes, how.settings, plans)
        if not wrong.keys() - blocked.keys():
            return Joint(outcomes, company), unnamed
        blocked |= wrong


def _stable(
    texts: Mapping[str, str],
    outcomes: dict[str, FileOutcome],
    how: _How,
    blocked: Blocked,
) -> dict[str, FileOutcome]:
    """The outcomes, as far as a second run changes nothing."""
    outputs = {
        path: outcome.output or texts[path]
        for path, outcome in outcomes.items()
    }
    if outputs == texts:
        return outcomes
    again = migrate_texts(
        outputs,
        how.settings,
        how.project,
        guarded=False,
        blocked=still_blocked(blocked, texts, outputs),
    ).outcomes
    return all_or_none(outcomes, unstable(outputs, outcomes, again))


def company_of(
    texts: Mapping[str, str], settings: Settings, project: Project
) -> tuple[str, ...]:
    """Other files (resolved) that loops of these might be migrated with; a plan, without text or
    proof. What has no name yet gets one first, for the loops that are refused for that alone.
    """
    if any("apex" in text for text in texts.values()):
        return migrate_texts(texts, settings, project).company
    program = program_of(texts)
    found = _planned(program, settings, project, hold=True, grows=True)
    trial = None if found.company else _trial(program, found.unnamed)
    if trial is None:
        return found.company
    again = _planned(trial[0], settings, project, hold=True, grows=True)
    return again.company


def _trial(
    program: Program, unnamed: UnnamedIn
) -> tuple[Program, Mapping[str, Named]] | None:
    """The program with a name for all that has none yet, and these names."""
    wanted = [one for them in unnamed.values() for one in them]
    files = named(program, wanted) if wanted else None
    if files is None:
        return None
    texts = {path: file.text for path, file in files.items()}
    return program_of(texts), files


class _Planned(NamedTuple):
    plans: Mapping[str, Plan]
    company: tuple[str, ...]
    unnamed: UnnamedIn


def _planned(
    program: Program,
    settings: Settings,
    project: Project | None,
    switches: Switches | None = None,
    blocked: Blocked | None = None,
    *,
    hold: bool = False,
    grows: bool = False,
    alone: Alone | None = None,
) -> _Planned:
    """The plans of a program, made once: the files that ask for no others are then rewritten by
    the plans that told so, whether it `grows` or not.
    """

    def made() -> tuple[Planner, _Planned]:
        planner, plans = planned(
            program,
            settings,
            blocked,
            project,
            switches,
            hold=hold,
            grows=grows,
            alone=alone,
        )
        return planner, _Planned(plans, tuple(planner.company), planner.unnamed)

    if blocked or switches:
        return made()[1]
    # The planner is kept, too: it holds the project, so that no other one gets its identity.
    key = (_planned, settings, id(project), alone)
    known: dict[bool, tuple[Planner, _Planned]]
    known = program.remembered(key, dict)
    held = known.get(True)
    if held is not None and not held[1].company:
        return held[1]  # nothing was put off for other files
    if hold not in known:
        known[hold] = made()
    return known[hold][1]


def _with_apex(
    texts: Mapping[str, str],
    settings: Settings,
    project: Project | None,
    alone: Alone | None,
) -> Joint | None:
    """What becomes of files that use `apex.amp`; None where none does."""
    if not any("apex" in text for text in texts.values()):
        return None

    def migrate(
        texts: Mapping[str, str], settings: Settings, switches: Switches
    ) -> Joint:
        return migrate_texts(
            texts, settings, project, switches=switches, alone=alone
        )

    return migrate_apex(texts, settings, project, migrate)


def _syntax(path: str, error: SyntaxError) -> FileOutcome:
    version = ".".join(map(str, sys.version_info[:3]))
    where = f"{path}:{error.lineno or 1}:{error.offset or 1}"
    message = (
        f"{where}: {error.msg} (read by Python {version}); correct the syntax, or run with "
        "the Python it is written for"
    )
    loop = LoopOutcome(
        error.lineno or 1,
        "<module>",
        "refused",
        "syntax",
        f"{error.msg} (read by Python {version})",
    )
    return FileOutcome(path, "failed", (loop,), error=message)


__all__ = ["Joint", "company_of", "migrate_text", "migrate_texts"]
