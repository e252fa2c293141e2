"""One module from text to outcome: model, plan, edits, guard."""

from __future__ import annotations

import ast
import sys

from amp_migrate.config import Settings
from amp_migrate.migrate.plan import Plan, Planner
from amp_migrate.migrate.refusal import Refusal
from amp_migrate.model.neighbours import Neighbours
from amp_migrate.model.program import Program
from amp_migrate.outcome import FileOutcome, FileStatus, LoopOutcome

_WOULD_BREAK = "the loop keeps gradients, or uses them, in a way that the scaler's protocol does not allow"


def migrate_text(text: str, path: str, settings: Settings, *, guarded: bool = True) -> FileOutcome:
    """Plan and rewrite one module.

    `text` has no byte order mark and its own line ends. Nothing is written here; `FileOutcome.output` is the new text.
    `guarded=False` leaves out the second run, for the guard's own use.
    """
    if "backward" not in text:
        return FileOutcome(path, "unchanged")
    try:
        program = Program(text, path, Neighbours(path))
    except SyntaxError as error:
        return _syntax(path, error)
    blocked: dict[str, Refusal] = {}
    while True:
        plan = Planner(program, settings, blocked).plan()
        if not plan.edits:
            return FileOutcome(path, _status(plan), tuple(plan.loops), tuple(plan.notes))
        outcome = _rewritten(text, path, settings, plan, guarded)
        wrong = _new_mistakes(text, outcome, settings, plan) if guarded else {}
        if not wrong.keys() - blocked.keys():
            return outcome
        blocked |= wrong


def _new_mistakes(text: str, outcome: FileOutcome, settings: Settings, plan: Plan) -> dict[str, Refusal]:
    """Loops whose rewrite would break a rule of severity error, or the protocol, by scope, with the rule as the reason."""
    from amp_migrate.guard.protocol import protocol_mistakes
    from amp_migrate.lint.judgement import brought_in

    if outcome.output is None:
        return {}
    new = [(f.rule, f.scope, f.message) for f in brought_in(text, outcome.output, outcome.path, settings)]
    if plan.introduced.scalers and not new:
        new = [(rule, scope, _WOULD_BREAK) for rule, scope in protocol_mistakes(outcome.output)]
    migrated = {loop.scope: loop for loop in plan.loops if loop.status == "migrated"}
    found: dict[str, Refusal] = {}
    for rule, scope, message in new:
        named = {s for s in migrated if scope == s or scope.startswith(f"{s}.")} or set(migrated)
        found |= {s: Refusal(rule, ast.Pass(lineno=migrated[s].line, col_offset=0), message) for s in named}
    return found


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


def _rewritten(text: str, path: str, settings: Settings, plan: Plan, guarded: bool) -> FileOutcome:
    from amp_migrate.guard import check
    from amp_migrate.writer import WriteError, apply

    try:
        output = apply(text, plan.edits)
    except WriteError as error:
        return FileOutcome(
            path, "failed", tuple(plan.loops), error=f"{path}: {error}; nothing was written, please report this"
        )
    again = (lambda new: migrate_text(new, path, settings, guarded=False).output) if guarded else None
    failures = check(text, output, plan.introduced, again=again)
    if failures:
        first = failures[0]
        message = f"{path}:{first.line}: the guard's check `{first.check}` failed: {first.message}; nothing was written, please report this"
        return FileOutcome(path, "failed", tuple(plan.loops), tuple(plan.notes), error=message)
    return FileOutcome(path, "migrated", tuple(plan.loops), tuple(plan.notes), output)
