"""Gradients are clipped while they are still scaled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.edits import Edit
from amp_migrate.lint.finding import Finding, Rule
from amp_migrate.model.mistakes import Mistake
from amp_migrate.model.program import Program

RULE = Rule("clip-without-unscale", severity="error", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Ask for clipping of scaled gradients."""
    message = (
        "the gradients are still scaled here, so every step is clipped to a sliver; "
        "call `scaler.unscale_(optimizer)` before clipping"
    )
    yield from broken(program, RULE, message, unscale_first, "unscale before clipping")


def unscale_first(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    """`scaler.unscale_(optimizer)` above the statement; under accumulation the statement moves to the step as well."""
    steps = _about(code, mistake, code.calls("scaler-step"))
    if len(steps) != 1 or not steps[0].args or _about(code, mistake, code.calls("unscale")):
        return None
    step = code.module.statement_of(steps[0])
    text = f"{code.source(receiver(steps[0]))}.unscale_({code.source(steps[0].args[0])})"
    around = [a for a in code.module.ancestors(code.statement) if isinstance(a, ast.stmt)]
    guards = [a for a in code.module.ancestors(step) if isinstance(a, ast.If) and a not in around]
    if not guards:
        return (code.add_before(code.statement, text),)
    if code.guarded(code.after(code.statement), "scaler-step") is not step or not _accumulates(guards[-1], code):
        return None
    if not code.alone():
        return None
    moved = code.move_before(step, code.statement)
    return (code.add_before(step, text), *moved)


def _about(code: Code, mistake: Mistake, calls: list[ast.Call]) -> list[ast.Call]:
    """Of several optimizers, the calls for the one whose gradients are clipped."""
    if mistake.optimizers == 1:
        return calls
    name = ast.dump(mistake.owner) if mistake.owner is not None else ""
    return [call for call in calls if call.args and ast.dump(call.args[0]) == name]


def _accumulates(guard: ast.If, code: Code) -> bool:
    """The condition is not that of AMP: the gradients are cleared under it."""
    return any(code.is_event(s, "zero-grad") for s in guard.body) and not guard.orelse
