"""`scaler.step()` is called in a loop and `scaler.update()` is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("missing-scaler-update", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find steps of the scaler that meet the next one without an update between."""
    message = (
        "no `scaler.update()` before the next step, which raises `step() has already been called "
        "since the last "
        "update()` on a GPU; call it after the step"
    )
    found = list(
        broken(
            program,
            RULE,
            message,
            _update,
            "call `scaler.update()` after the step",
        )
    )
    yield from found
    for step in _never_updated(program) if not found else ():
        yield finding_at(program, step, RULE, message)


def _never_updated(program: Program) -> Iterator[ast.Call]:
    """Steps of a scaler that its class makes, keeps to itself, and never updates: no loop need be
    in sight for that.
    """
    events = program.events
    calls = [
        (call, scope)
        for scope in program.module.scopes.values()
        for call in scope.calls
    ]
    if "caler" not in program.module.text or any(
        _updates(call) or events.what(call, scope) == EventKind.UPDATE
        for call, scope in calls
    ):
        return
    for call, scope in calls:
        around = program.graph.class_around(scope)
        holder = (
            receiver(call)
            if events.what(call, scope) == EventKind.SCALER_STEP
            else None
        )
        if (
            around is None
            or not isinstance(holder, ast.Attribute)
            or program.values.kind(holder, scope) is not Kind.SCALER
        ):
            continue
        passed = [
            a
            for c, _ in calls
            for a in [*c.args, *(k.value for k in c.keywords)]
        ]
        if not any(
            isinstance(a, ast.Attribute) and a.attr == holder.attr
            for a in passed
        ) and _scales(program, scope):
            yield call


def _updates(call: ast.Call) -> bool:
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr == "update"
        and "scal" in ast.unparse(func.value).lower()
    )


def _scales(program: Program, scope: Scope) -> bool:
    """The same function goes backward: it makes whole steps."""
    return any(
        program.events.what(call, scope) == EventKind.SCALE
        for call in scope.calls
    )


def _update(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    """Behind the step; of several optimizers, behind the last step where all of them stand in one
    block.
    """
    steps = [
        code.module.statement_of(call)
        for call in code.calls(EventKind.SCALER_STEP)
    ]
    if mistake.updates or not all(code.alone(step) for step in steps):
        return None
    if mistake.optimizers > 1 and not all(
        any(step is one for one in code.block()) for step in steps
    ):
        return None
    last = steps[-1] if mistake.optimizers > 1 else code.statement
    return (
        code.add_after(last, f"{code.source(receiver(mistake.node))}.update()"),
    )
