"""Files of one program from text to outcome: model, plan, edits, guard. One file is a program of
its own.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from amp_migrate.apex import migrate_apex
from amp_migrate.config import Settings
from amp_migrate.model.frameworks import names_framework
from amp_migrate.model.linking import LinkedProgram
from amp_migrate.model.neighbours import Neighbours
from amp_migrate.model.program import Program
from amp_migrate.outcome import FileOutcome, FileStatus, Joint, LoopOutcome
from amp_migrate.pipeline.existing_amp import repaired
from amp_migrate.pipeline.new_findings import brought_in
from amp_migrate.planner.plan import Plan, Planner, planned
from amp_migrate.planner.refusal import Refusal
from amp_migrate.project.module_graph import Project
from amp_migrate.rewrite.proof import check
from amp_migrate.rewrite.proof.additions import unproved
from amp_migrate.rewrite.proof.check import stable
from amp_migrate.rewrite.proof.protocol import UNFOLLOWED, mistakes_of
from amp_migrate.rewrite.proof.together import call_faults

_WOULD_BREAK = (
    "the loop keeps gradients, or uses them, in a way that the scaler's protocol does not allow"
)
_UNFOLLOWED = (
    "more paths lead through the training step than can be followed, so nothing proves that each "
    "of them uses the scaler in the right order"
)
_Blocked = dict[tuple[str, str], Refusal]
Switches = Mapping[str, Mapping[str, tuple[str, ...]]]


def migrate_text(text: str, path: str, settings: Settings, *, guarded: bool = True) -> FileOutcome:
    """Plan and rewrite one module by itself.

    `text` has no byte order mark and its own line ends. Nothing is written here;
    `FileOutcome.output` is the new text. `guarded=False` leaves out the second run, for the guard's
    own use.
    """
    try:
        return migrate_texts({path: text}, settings, guarded=guarded).outcomes[path]
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
) -> Joint:
    """Plan and rewrite the files of one program, all that belong together or none.

    `texts` by path; `project` is the tree around them, whose other files may turn out to be needed.
    `switches`: what turns AMP on, by path and scope, where it is known beforehand
    (`apex.Unapexed.switches`). With `hold`, nothing is rewritten where other files are needed:
    only these are told.
    """
    if guarded and switches is None:
        joint = _with_apex(texts, settings, project) or migrate_texts(
            texts, settings, project, switches={}, hold=hold
        )
        if hold and joint.company:
            return joint
        return replace(
            joint, outcomes={p: repaired(o, texts[p], settings) for p, o in joint.outcomes.items()}
        )
    if not any("backward" in text or names_framework(text) for text in texts.values()):
        return Joint({path: FileOutcome(path, "unchanged") for path in texts})
    try:
        program = _program(texts)
    except SyntaxError as error:
        path = next((p for p in texts if p == error.filename), next(iter(texts)))
        others = {other: FileOutcome(other, "unchanged") for other in texts}
        return Joint({**others, path: _syntax(path, error)})
    return _proved(program, texts, settings, project, guarded, switches, hold)


def _proved(
    program: Program,
    texts: Mapping[str, str],
    settings: Settings,
    project: Project | None,
    guarded: bool,
    switches: Switches | None,
    hold: bool,
) -> Joint:
    """Plan and write until nothing is left in the output that cannot be proved."""
    blocked: _Blocked = {}
    while True:
        plans, company = _planned(program, settings, project, switches, blocked)
        if hold and company:
            return Joint({}, company)
        outcomes = _rewritten(texts, settings, plans, project, guarded)
        wrong = _new_mistakes(texts, outcomes, settings, plans) if guarded else {}
        if not wrong.keys() - blocked.keys():
            return Joint(outcomes, company)
        blocked |= wrong


def company_of(texts: Mapping[str, str], settings: Settings, project: Project) -> tuple[str, ...]:
    """Other files (resolved) that loops of these might be migrated with; a plan, without text or
    proof.
    """
    if any("apex" in text for text in texts.values()):
        return migrate_texts(texts, settings, project).company
    return _planned(_program(texts), settings, project).company


class _Planned(NamedTuple):
    plans: Mapping[str, Plan]
    company: tuple[str, ...]


def _planned(
    program: Program,
    settings: Settings,
    project: Project | None,
    switches: Switches | None = None,
    blocked: Mapping[tuple[str, str], Refusal] | None = None,
) -> _Planned:
    """The plans of a program, made once: the files that ask for no others are then rewritten by
    the plans that told so.
    """

    def made() -> tuple[Planner, _Planned]:
        planner, plans = planned(program, settings, blocked, project, switches)
        return planner, _Planned(plans, tuple(planner.company))

    if blocked or switches:
        return made()[1]
    # The planner is kept, too: it holds the project, so that no other one gets its identity.
    return program.remembered((_planned, settings, id(project)), made)[1]


def _program(texts: Mapping[str, str]) -> Program:
    return _built(tuple(texts.items()))


@functools.lru_cache(maxsize=2)
def _built(texts: tuple[tuple[str, str], ...]) -> Program:
    """The model of a program: that of its output is asked by the second run and by the proof."""
    if len(texts) == 1:
        [(path, text)] = texts
        return Program(text, path, Neighbours(path))
    return LinkedProgram(dict(texts))


def forget() -> None:
    """Forget the models: what lies beside their files may be another thing the next time."""
    _built.cache_clear()


def _with_apex(
    texts: Mapping[str, str], settings: Settings, project: Project | None
) -> Joint | None:
    """What becomes of files that use `apex.amp`; None where none does."""
    if not any("apex" in text for text in texts.values()):
        return None

    def migrate(texts: Mapping[str, str], settings: Settings, switches: Switches) -> Joint:
        return migrate_texts(texts, settings, project, switches=switches)

    return migrate_apex(texts, settings, project, migrate)


def _new_mistakes(
    texts: Mapping[str, str],
    outcomes: Mapping[str, FileOutcome],
    settings: Settings,
    plans: Mapping[str, Plan],
) -> _Blocked:
    """Loops whose rewrite would break a rule of severity error, or the protocol, with the rule as
    the reason.
    """
    found: _Blocked = {}
    migrated = [
        (path, loop)
        for path, plan in plans.items()
        for loop in plan.loops
        if loop.status == "migrated"
    ]
    outputs = {path: outcome.output for path, outcome in outcomes.items() if outcome.output}
    unproved = _unproved(texts, outputs, plans)
    for path, output in outputs.items():
        # The second run and the proof have built the model of an output that stands alone.
        program = _program(outputs) if len(texts) == 1 else Program(output, path)
        mistakes = _mistakes_in(program, texts[path], settings, plans[path])
        for rule, scope, message in [*mistakes, *unproved.get(path, ())]:
            own = [loop for file, loop in migrated if file == path]
            named = [
                loop for loop in own if scope == loop.scope or scope.startswith(f"{loop.scope}.")
            ]
            for file, loop in [(path, one) for one in named or own] or migrated:
                found[file, loop.scope] = Refusal(
                    rule, ast.Pass(lineno=loop.line, col_offset=0), message
                )
    return found


def _unproved(
    texts: Mapping[str, str], outputs: Mapping[str, str], plans: Mapping[str, Plan]
) -> dict[str, list[tuple[str, str, str]]]:
    """The reason, scope and message of each addition that may fail, by path."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    if outputs:
        introduced = {path: plan.introduced for path, plan in plans.items()}
        for one in unproved(_program({**texts, **outputs}), texts, introduced):
            what = f"`{one.expression}` cannot be proved to work there: " if one.expression else ""
            message = f"line {one.line} of the rewrite: {what}{one.why}"
            found.setdefault(one.path, []).append(("addition-not-proved", one.scope, message))
        for path, message in _torn({**texts, **outputs}, plans):
            near = path if path in outputs else next(iter(outputs))
            found.setdefault(near, []).append(("addition-not-proved", "", message))
    return found


def _torn(outputs: Mapping[str, str], plans: Mapping[str, Plan]) -> Iterator[tuple[str, str]]:
    """Calls in one file that do not fit what another one has become, with the path of theirs."""
    names = frozenset().union(*(plan.introduced.parameters for plan in plans.values()))
    if len(outputs) == 1 or not names:
        return

    for path, failure in call_faults(outputs, names):
        yield path, f"{Path(path).name}:{failure.line} of the rewrite: {failure.message}"


def _mistakes_in(
    program: Program, original: str, settings: Settings, plan: Plan
) -> list[tuple[str, str, str]]:
    module = program.module
    found = brought_in(original, module.text, module.path, settings, program)
    new = [(f.rule, f.scope, f.message) for f in found]
    if plan.introduced.scalers and not new:
        new = [
            (rule, scope, _UNFOLLOWED if rule == UNFOLLOWED else _WOULD_BREAK)
            for rule, scope in mistakes_of(program)
        ]
    return new


def _status(plan: Plan) -> FileStatus:
    return "refused" if any(loop.status == "refused" for loop in plan.loops) else "unchanged"


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
        failed = _unstable(outputs, outcomes, settings, project)
    if failed is None:
        return outcomes
    return {path: _given_up(o, failed) for path, o in outcomes.items()}


def _file(text: str, path: str, plan: Plan) -> FileOutcome:
    """One file rewritten and compared with what it was."""
    from amp_migrate.rewrite.writer import UnparsableModule, WriteError, apply

    loops, notes = tuple(plan.loops), tuple(plan.notes)
    if not plan.edits:
        return FileOutcome(path, _status(plan), loops, notes)
    try:
        output = apply(text, plan.edits)
    except UnparsableModule as error:
        message = f"{path}: it cannot be rewritten: {error}; simplify that place, or exclude it"
        return FileOutcome(path, "failed", loops, error=message)
    except WriteError as error:
        message = f"{path}: {error}; nothing was written, please report this"
        return FileOutcome(path, "failed", loops, error=message)
    # An addition that may fail is a reason to refuse the loop, see `_unproved`.
    for failure in check(text, output, plan.introduced, names=False):
        return _guarded(
            path,
            failure.line,
            failure.check,
            failure.message,
            FileOutcome(path, "failed", loops, notes),
        )
    return FileOutcome(path, "migrated", loops, notes, output)


def _unstable(
    outputs: Mapping[str, str],
    outcomes: Mapping[str, FileOutcome],
    settings: Settings,
    project: Project | None,
) -> FileOutcome | None:
    """The first file that a second run would change again."""
    again = migrate_texts(outputs, settings, project, guarded=False).outcomes
    for path, outcome in again.items():
        for failure in stable(outputs[path], outcome.output):
            return _guarded(path, failure.line, failure.check, failure.message, outcomes[path])
    return None


def _guarded(path: str, line: int, check: str, what: str, outcome: FileOutcome) -> FileOutcome:
    message = (
        f"{path}:{line}: the guard's check `{check}` failed: {what}; nothing was written, "
        "please report this"
    )
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
