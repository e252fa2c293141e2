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
    """Loops whose rewrite would break a rule of severity error that the original keeps, by scope."""
    from amp_migrate.lint.judgement import brought_in

    if outcome.output is None:
        return {}
    found: dict[str, Refusal] = {}
    for finding in brought_in(text, outcome.output, outcome.path, settings):
        scopes = {loop.scope for loop in plan.loops if loop.status == "migrated"}
        named = {s for s in scopes if finding.scope == s or finding.scope.startswith(f"{s}.")} or scopes
        found |= {scope: Refusal(finding.rule, plan_position(plan, scope), finding.message) for scope in named}
    return found


def plan_position(plan: Plan, scope: str) -> ast.AST:
    """A node at the line of a scope's loop, for messages."""
    line = next(loop.line for loop in plan.loops if loop.scope == scope)
    return ast.Pass(lineno=line, col_offset=0)


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
    from amp_migrate.guard.protocol import protocol_failures
    from amp_migrate.writer import WriteError, apply

    try:
        output = apply(text, plan.edits)
    except WriteError as error:
        return FileOutcome(
            path, "failed", tuple(plan.loops), error=f"{path}: {error}; nothing was written, please report this"
        )
    again = (lambda new: migrate_text(new, path, settings, guarded=False).output) if guarded else None
    protocol = protocol_failures if guarded and plan.introduced.scalers else None
    failures = check(text, output, plan.introduced, again=again, protocol=protocol)
    if failures:
        first = failures[0]
        message = f"{path}:{first.line}: the guard's check `{first.check}` failed: {first.message}; nothing was written, please report this"
        return FileOutcome(path, "failed", tuple(plan.loops), tuple(plan.notes), error=message)
    return FileOutcome(path, "migrated", tuple(plan.loops), tuple(plan.notes), output)
