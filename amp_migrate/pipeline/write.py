"""Plans become texts: each file rewritten, and compared with what it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module
from amp_migrate.outcome import FileOutcome, FileStatus
from amp_migrate.planner.files.file_plan import Plan
from amp_migrate.rewrite.proof import check


def written(
    program: Program, plans: Mapping[str, Plan], texts: Mapping[str, str]
) -> dict[str, FileOutcome]:
    """The files of a program by their plans, in memory, each by itself; `texts` are those that the
    user has, by path.
    """
    return {
        file.path: _file(file, plans[file.path], texts[file.path])
        for file in program.module.files
    }


def all_or_none(
    outcomes: Mapping[str, FileOutcome], failed: FileOutcome | None = None
) -> dict[str, FileOutcome]:
    """The outcomes; where one of them, or `failed`, cannot be written, then none is."""
    failed = failed or next(
        (o for o in outcomes.values() if o.status == "failed"), None
    )
    if failed is None:
        return dict(outcomes)
    return {
        path: _given_up(outcome, failed) for path, outcome in outcomes.items()
    }


def _file(file: Module, plan: Plan, original: str) -> FileOutcome:
    """One file rewritten and compared with what it was."""
    from amp_migrate.rewrite.writer import UnparsableModule, WriteError, apply

    text, path = file.text, file.path
    loops, notes = tuple(plan.loops), tuple(dict.fromkeys(plan.notes))
    if not plan.edits:
        return FileOutcome(path, _status(plan), loops, notes)
    try:
        output = apply(text, plan.edits, file.tree)
    except UnparsableModule as error:
        message = f"{path}: it cannot be rewritten: {error}; simplify that place, or exclude it"
        return FileOutcome(path, "failed", loops, error=message)
    except WriteError as error:
        message = f"{path}: {error}; nothing was written, please report this"
        return FileOutcome(path, "failed", loops, error=message)
    # An addition that may fail is a reason to refuse the loop, see `_unproved`.
    for failure in check(original, output, plan.introduced, names=False):
        return guarded(
            path,
            failure.line,
            failure.check,
            failure.message,
            FileOutcome(path, "failed", loops, notes),
        )
    return FileOutcome(path, "migrated", loops, notes, output)


def _status(plan: Plan) -> FileStatus:
    return (
        "refused"
        if any(loop.status == "refused" for loop in plan.loops)
        else "unchanged"
    )


def guarded(
    path: str, line: int, check: str, what: str, outcome: FileOutcome
) -> FileOutcome:
    """A file that the guard has refused to write."""
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
