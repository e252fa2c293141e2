"""What must hold of an output before it is written: a second run changes nothing, additions cannot
fail, calls fit, no rule of severity error and no path of the protocol is broken.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.model.budget import (
    BudgetEndedError,
    at_most,
    for_program,
)
from amp_migrate.model.program import Program
from amp_migrate.outcome import FileOutcome, LoopOutcome
from amp_migrate.pipeline.fault import Wrong, at_fault, line_after
from amp_migrate.pipeline.models import program_of
from amp_migrate.pipeline.new_findings import brought_in, confirmed
from amp_migrate.pipeline.write import guarded
from amp_migrate.planner.files.file_plan import Plan
from amp_migrate.planner.refusal import Refusal
from amp_migrate.rewrite.proof.additions import unproved
from amp_migrate.rewrite.proof.check import stable
from amp_migrate.rewrite.proof.protocol import (
    UNFOLLOWED,
    mistakes_in,
    mistakes_of,
)
from amp_migrate.rewrite.proof.together import call_faults

_WOULD_BREAK = (
    "the loop keeps gradients, or uses them, in a way that the scaler's "
    "protocol does not allow"
)
_UNFOLLOWED = (
    "more paths lead through the training step than can be followed, so nothing proves that each "
    "of them uses the scaler in the right order"
)
_TOO_MUCH = (
    "what the rewritten program runs leads to more than can be followed, so that nothing proves it "
    "right"
)
_LEAKS = (
    "gradients that this loop scales may be left when it ends, and the same optimizer steps "
    "without the scaler elsewhere: clear them (`zero_grad`) in between"
)
_TOLD = {UNFOLLOWED: _UNFOLLOWED, "bare-optimizer-step": _LEAKS}
_UNPROVED = "addition-not-proved"
Blocked = dict[tuple[str, str, int], Refusal]
"""Loops that are to be left alone, by path, scope and line, with the reason."""


def unstable(
    outputs: Mapping[str, str],
    outcomes: Mapping[str, FileOutcome],
    again: Mapping[str, FileOutcome],
) -> FileOutcome | None:
    """The first file that a second run changes again, which gave `again` for these outputs."""
    for path, outcome in again.items():
        for failure in stable(outputs[path], outcome.output):
            return guarded(
                path,
                failure.line,
                failure.check,
                failure.message,
                outcomes[path],
            )
    return None


def still_blocked(
    blocked: Blocked, texts: Mapping[str, str], outputs: Mapping[str, str]
) -> Blocked:
    """The loops that are left alone, where they stand in the outputs: a second run without the
    proof would plan them again.
    """
    return {
        (path, scope, line_after(line, texts[path], outputs[path])): why
        for (path, scope, line), why in blocked.items()
    }


def new_mistakes(
    texts: Mapping[str, str],
    outcomes: Mapping[str, FileOutcome],
    settings: Settings,
    plans: Mapping[str, Plan],
) -> Blocked:
    """Loops whose rewrite would break a rule of severity error, or the protocol, with the rule as
    the reason.
    """
    migrated = [
        (path, loop)
        for path, plan in plans.items()
        for loop in plan.loops
        if loop.status == "migrated"
    ]
    outputs = {
        path: outcome.output
        for path, outcome in outcomes.items()
        if outcome.output
    }
    try:
        with at_most(for_program(outputs)):
            return _mistakes(texts, outputs, migrated, settings, plans)
    except BudgetEndedError:
        return {
            _key(path, loop): Refusal(UNFOLLOWED, _at(loop), _TOO_MUCH)
            for path, loop in migrated
        }


def _mistakes(
    texts: Mapping[str, str],
    outputs: Mapping[str, str],
    migrated: Sequence[tuple[str, LoopOutcome]],
    settings: Settings,
    plans: Mapping[str, Plan],
) -> Blocked:
    found: Blocked = {}
    unproved = _unproved(texts, outputs, plans)
    whole = {**texts, **outputs}
    for path, output in outputs.items():
        # The second run and the proof have built the model of an output that stands alone.
        program = (
            program_of(outputs) if len(texts) == 1 else Program(output, path)
        )
        mistakes = _mistakes_in(
            program, texts[path], settings, plans[path], whole
        )
        both = (texts[path], output)
        for one in [*mistakes, *unproved.get(path, ())]:
            for file, loop in at_fault(path, one, migrated, plans[path], both):
                message = one.message
                told = message if file == path else _in_file(path, message)
                found[_key(file, loop)] = Refusal(one.rule, _at(loop), told)
    return found


def _key(path: str, loop: LoopOutcome) -> tuple[str, str, int]:
    return path, loop.scope, loop.line


def _at(loop: LoopOutcome) -> ast.stmt:
    return ast.Pass(lineno=loop.line, col_offset=0)


def _in_file(path: str, message: str) -> str:
    """What is told of one file, in the report of another one's loop."""
    name = Path(path).name
    return message if message.startswith(name) else f"{name}: {message}"


def _unproved(
    texts: Mapping[str, str],
    outputs: Mapping[str, str],
    plans: Mapping[str, Plan],
) -> dict[str, list[Wrong]]:
    """The additions that may fail, by path."""
    found: dict[str, list[Wrong]] = {}
    if outputs:
        program = program_of({**texts, **outputs})
        introduced = {path: plan.introduced for path, plan in plans.items()}
        for one in unproved(program, texts, introduced):
            is_module = one.scope in ("", "<module>")
            where = "at module level" if is_module else f"in `{one.scope}`"
            what = (
                f"the rewrite would add `{one.expression}` {where}, which cannot be "
                "proved to work there: "
                if one.expression
                else f"of what the rewrite would add {where}: "
            )
            message = f"{what}{one.why}"
            found.setdefault(one.path, []).append(
                Wrong(_UNPROVED, one.scope, message, one.line)
            )
        for path, message in _torn(program, plans):
            near = path if path in outputs else next(iter(outputs))
            found.setdefault(near, []).append(Wrong(_UNPROVED, "", message))
    return found


def _torn(
    program: Program, plans: Mapping[str, Plan]
) -> Iterator[tuple[str, str]]:
    """Calls in one file that do not fit what another one has become, with the path of theirs."""
    names = frozenset().union(
        *(plan.introduced.parameters for plan in plans.values())
    )
    if not names:
        return
    for path, failure in call_faults(program, names):
        yield (
            path,
            f"{Path(path).name}:{failure.line} of the rewrite: {failure.message}",
        )


def _mistakes_in(
    program: Program,
    original: str,
    settings: Settings,
    plan: Plan,
    whole: Mapping[str, str],
) -> list[Wrong]:
    """What is wrong in one file of a program; `whole` are the files of the program, which may show
    what one of them does not.
    """
    module = program.module
    found = brought_in(original, module.text, module.path, settings, program)
    if found and len(whole) > 1:
        found = confirmed(found, program_of(whole), settings)
    new = [Wrong(f.rule, f.scope, f.message, f.line) for f in found]
    if plan.introduced.scalers and not new:
        new = [
            Wrong(rule, scope, _TOLD.get(rule, _WOULD_BREAK), line)
            for rule, scope, line in _broken(program, whole)
        ]
    return new


def _broken(
    program: Program, whole: Mapping[str, str]
) -> list[tuple[str, str, int]]:
    """Where one file of a program breaks the protocol, by rule, scope and line."""
    found = mistakes_of(program)
    if len(whole) == 1 or not found:
        return found
    together = program_of(whole)
    return mistakes_in(program, together)
