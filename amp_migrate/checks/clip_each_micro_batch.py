"""Gradients are clipped while they are still being accumulated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, LOOPS, Scope
from amp_migrate.model.syntax.queries import any_in

RULE = Rule("clip-each-micro-batch", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find clips in a loop whose plain step, and the clearing of gradients, are conditional."""
    events = program.events
    if "clip" not in program.module.text or events.scaler_scopes():
        return
    message = (
        "later micro-batches are added to what is clipped here, so early ones count less; "
        "clip under the condition of the step"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            for clip in _clips(program, call, scope):
                code = Code(program, call)
                step = _later_step(code)
                if step is not None:
                    fix = _fix(code, step) if clip is call else None
                    yield finding_at(
                        program,
                        clip,
                        RULE,
                        message,
                        related=[(step, "stepped here")],
                        fix=fix,
                    )


def _clips(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[ast.Call]:
    """The call, if it clips; or the clips in the helper that it runs, if that goes backward too."""
    events = program.events
    if events.what(call, scope) == EventKind.CLIP:
        yield call
        return
    function = events.callee(call, scope)
    if function is None:
        return
    inner = program.module.scopes[function]
    whats = {events.what(c, inner) for c in inner.calls}
    if EventKind.BACKWARD in whats and EventKind.BARE_STEP not in whats:
        yield from (
            c for c in inner.calls if events.what(c, inner) == EventKind.CLIP
        )


def _later_step(code: Code) -> ast.stmt | None:
    """The step behind, under a condition with `zero_grad`, or behind a conditional `continue`."""
    if not _is_turn(code) or any(
        code.is_event(s, EventKind.ZERO_GRAD)
        for s in code.before(code.statement)
    ):
        return None
    if any("zero_grad" in code.source(s) for s in code.before(code.statement)):
        return None
    behind = code.after(code.statement)
    step = code.guarded(behind, EventKind.BARE_STEP)
    if step is not None:
        clears = any(
            code.is_event(s, EventKind.ZERO_GRAD) for s in code.block(step)
        )
        return (
            step
            if clears
            and not any(code.is_event(s, EventKind.BARE_STEP) for s in behind)
            else None
        )
    skips = any(
        isinstance(s, ast.If)
        and isinstance(s.body[-1], ast.Continue)
        and "%" in code.source(s.test)
        for s in behind
    )
    return (
        next((s for s in behind if code.is_event(s, EventKind.BARE_STEP)), None)
        if skips
        else None
    )


def _is_turn(code: Code) -> bool:
    """Whether the block is what a loop runs each time: its body, or that of a method that goes
    backward and steps each so many times.
    """
    parent = code.module.parents[code.statement]
    if isinstance(parent, LOOPS):
        return True
    if not isinstance(parent, FUNCTIONS):
        return False
    counted = any(
        isinstance(s, ast.If) and any_in(s.test, ast.Mod)
        for s in code.after(code.statement)
    )
    return counted and any(
        code.is_event(s, EventKind.BACKWARD)
        for s in code.before(code.statement)
    )


def _fix(code: Code, step: ast.stmt) -> Fix | None:
    if not code.alone():
        return None
    return Fix(
        "unsafe",
        "clip before the step: what the program computes changes",
        code.move_before(step, code.statement),
    )
