"""Files of one program from text to outcome: model, plan, edits, guard. One file is a program of its own."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from amp_migrate.config import Settings
from amp_migrate.migrate.existing import repaired
from amp_migrate.migrate.plan import Plan, Planner
from amp_migrate.migrate.refusal import Refusal
from amp_migrate.model.frameworks import names_framework
from amp_migrate.model.neighbours import Neighbours
from amp_migrate.model.program import Program
from amp_migrate.model.project import Project
from amp_migrate.outcome import FileOutcome, FileStatus, LoopOutcome

_WOULD_BREAK = "the loop keeps gradients, or uses them, in a way that the scaler's protocol does not allow"
_Blocked = dict[tuple[str, str], Refusal]
Switches = Mapping[str, Mapping[str, tuple[str, ...]]]


@dataclass(frozen=True)
class Joint:
    """What became of the files of one program."""

    outcomes: Mapping[str, FileOutcome]
    """By path."""
    company: tuple[str, ...] = ()
    """Other files (resolved) together with which more of its loops might be migrated."""


def migrate_text(text: str, path: str, settings: Settings, *, guarded: bool = True) -> FileOutcome:
    """Plan and rewrite one module by itself.

    `text` has no byte order mark and its own line ends. Nothing is written here; `FileOutcome.output` is the new text.
    `guarded=False` leaves out the second run, for the guard's own use.
    """
    return migrate_texts({path: text}, settings, guarded=guarded).outcomes[path]


def migrate_texts(
    texts: Mapping[str, str],
    settings: Settings,
    project: Project | None = None,
    *,
    guarded: bool = True,
    switches: Switches | None = None,
) -> Joint:
    """Plan and rewrite the files of one program, all that belong together or none.

    `texts` by path; `project` is the tree around them, whose other files may turn out to be needed.
    `switches`: what turns AMP on, by path and scope, where it is known beforehand (`apex.Unapexed.switches`).
    """
    if guarded and switches is None:
        joint = _with_apex(texts, settings, project) or migrate_texts(texts, settings, project, switches={})
        return replace(joint, outcomes={p: repaired(o, texts[p], settings) for p, o in joint.outcomes.items()})
    if not any("backward" in text or names_framework(text) for text in texts.values()):
        return Joint({path: FileOutcome(path, "unchanged") for path in texts})
    try:
        program = _program(texts)
    except SyntaxError as error:
        path = next((p for p in texts if p == error.filename), next(iter(texts)))
        others = {other: FileOutcome(other, "unchanged") for other in texts}
        return Joint({**others, path: _syntax(path, error)})
    blocked: _Blocked = {}
    while True:
        planner = Planner(program, settings, blocked, project, switches)
        plans = planner.plan()
        outcomes = _rewritten(texts, settings, plans, project, guarded)
        wrong = _new_mistakes(texts, outcomes, settings, plans) if guarded else {}
        if not wrong.keys() - blocked.keys():
            return Joint(outcomes, tuple(planner.company))
        blocked |= wrong


def company_of(texts: Mapping[str, str], settings: Settings, project: Project) -> tuple[str, ...]:
    """Other files (resolved) that loops of these might be migrated with; a plan, without text or proof."""
    if any("apex" in text for text in texts.values()):
        return migrate_texts(texts, settings, project).company
    planner = Planner(_program(texts), settings, {}, project)
    planner.plan()
    return tuple(planner.company)


def _program(texts: Mapping[str, str]) -> Program:
    if len(texts) == 1:
        [(path, text)] = texts.items()
        return Program(text, path, Neighbours(path))
    from amp_migrate.model.linking import LinkedProgram

    return LinkedProgram(texts)


def _with_apex(texts: Mapping[str, str], settings: Settings, project: Project | None) -> Joint | None:
    """What becomes of files that use `apex.amp`; None where none does."""
    if not any("apex" in text for text in texts.values()):
        return None
    from amp_migrate.apex import migrate_apex

    def migrate(texts: Mapping[str, str], settings: Settings, switches: Switches) -> Joint:
        return migrate_texts(texts, settings, project, switches=switches)

    return migrate_apex(texts, settings, project, migrate)


def _new_mistakes(
    texts: Mapping[str, str], outcomes: Mapping[str, FileOutcome], settings: Settings, plans: Mapping[str, Plan]
) -> _Blocked:
    """Loops whose rewrite would break a rule of severity error, or the protocol, with the rule as the reason."""
    found: _Blocked = {}
    migrated = [(path, loop) for path, plan in plans.items() for loop in plan.loops if loop.status == "migrated"]
    for path, outcome in outcomes.items():
        if outcome.output is None:
            continue
        for rule, scope, message in _mistakes_in(texts[path], outcome.output, path, settings, plans[path]):
            own = [loop for file, loop in migrated if file == path]
            named = [loop for loop in own if scope == loop.scope or scope.startswith(f"{loop.scope}.")]
            for file, loop in [(path, one) for one in named or own] or migrated:
                found[file, loop.scope] = Refusal(rule, ast.Pass(lineno=loop.line, col_offset=0), message)
    return found


def _mistakes_in(text: str, output: str, path: str, settings: Settings, plan: Plan) -> list[tuple[str, str, str]]:
    from amp_migrate.guard.protocol import protocol_mistakes
    from amp_migrate.lint.judgement import brought_in

    new = [(f.rule, f.scope, f.message) for f in brought_in(text, output, path, settings)]
    if plan.introduced.scalers and not new:
        new = [(rule, scope, _WOULD_BREAK) for rule, scope in protocol_mistakes(output)]
    return new


def _status(plan: Plan) -> FileStatus:
    return "refused" if any(loop.status == "refused" for loop in plan.loops) else "unchanged"


def _syntax(path: str, error: SyntaxError) -> FileOutcome:
    version = ".".join(map(str, sys.version_info[:3]))
    where = f"{path}:{error.lineno or 1}:{error.offset or 1}"
    message = (
        f"{where}: {error.msg} (read by Python {version}); correct the syntax, or run with the Python it is written for"
    )
    loop = LoopOutcome(error.lineno or 1, "<module>", "refused", "syntax", f"{error.msg} (read by Python {version})")
    return FileOutcome(path, "failed", (loop,), error=message)


def _rewritten(
    texts: Mapping[str, str],
    settings: Settings,
    plans: Mapping[str, Plan],
    project: Project | None,
    guarded: bool,
) -> dict[str, FileOutcome]:
    outcomes = {path: _file(texts[path], path, plan) for path, plan in plans.items()}
    failed = next((o for o in outcomes.values() if o.status == "failed"), None)
    outputs = {path: o.output or texts[path] for path, o in outcomes.items()}
    if failed is None and guarded and outputs != texts:
        failed = _torn(outputs, outcomes, plans) or _unstable(outputs, outcomes, settings, project)
    if failed is None:
        return outcomes
    return {path: _given_up(o, failed) for path, o in outcomes.items()}


def _file(text: str, path: str, plan: Plan) -> FileOutcome:
    """One file rewritten and compared with what it was."""
    from amp_migrate.guard import check
    from amp_migrate.writer import WriteError, apply

    loops, notes = tuple(plan.loops), tuple(plan.notes)
    if not plan.edits:
        return FileOutcome(path, _status(plan), loops, notes)
    try:
        output = apply(text, plan.edits)
    except WriteError as error:
        message = f"{path}: {error}; nothing was written, please report this"
        return FileOutcome(path, "failed", loops, error=message)
    for failure in check(text, output, plan.introduced):
        return _guarded(path, failure.line, failure.check, failure.message, FileOutcome(path, "failed", loops, notes))
    return FileOutcome(path, "migrated", loops, notes, output)


def _torn(
    outputs: Mapping[str, str], outcomes: Mapping[str, FileOutcome], plans: Mapping[str, Plan]
) -> FileOutcome | None:
    """The first file whose calls do not fit what another one has become."""
    names = frozenset().union(*(plan.introduced.parameters for plan in plans.values()))
    if len(outputs) == 1 or not names:
        return None
    from amp_migrate.guard.together import call_faults

    for path, failure in call_faults(outputs, names):
        return _guarded(path, failure.line, failure.check, failure.message, outcomes[path])
    return None


def _unstable(
    outputs: Mapping[str, str], outcomes: Mapping[str, FileOutcome], settings: Settings, project: Project | None
) -> FileOutcome | None:
    """The first file that a second run would change again."""
    from amp_migrate.guard.check import stable

    again = migrate_texts(outputs, settings, project, guarded=False).outcomes
    for path, outcome in again.items():
        for failure in stable(outputs[path], outcome.output):
            return _guarded(path, failure.line, failure.check, failure.message, outcomes[path])
    return None


def _guarded(path: str, line: int, check: str, what: str, outcome: FileOutcome) -> FileOutcome:
    message = f"{path}:{line}: the guard's check `{check}` failed: {what}; nothing was written, please report this"
    return replace(outcome, status="failed", output=None, error=message)


def _given_up(outcome: FileOutcome, failed: FileOutcome) -> FileOutcome:
    """Where one file of a program cannot be written, none is."""
    if outcome.path == failed.path:
        return failed
    if outcome.output is None:
        return outcome
    error = f"{outcome.path}: left as it is, since it belongs together with {failed.error}"
    return replace(outcome, status="failed", output=None, error=error)


__all__ = ["Joint", "company_of", "migrate_text", "migrate_texts"]
