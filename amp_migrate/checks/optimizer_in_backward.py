"""An optimizer steps inside the backward pass, where the gradients are still scaled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import calls_in

RULE = Rule("optimizer-in-backward", severity="error")
_HOOK = "register_post_accumulate_grad_hook"


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find optimizers that step in hooks, in a program that scales its loss."""
    calls = [
        (call, scope)
        for scope in program.module.scopes.values()
        for call in scope.calls
        if _steps(program, call, scope)
    ]
    events = program.events if calls else None
    if events is None or not any(
        events.what(c, s) == EventKind.SCALE
        for s in program.module.scopes.values()
        for c in s.calls
    ):
        return
    message = (
        "the optimizer steps inside the backward pass, on gradients that still carry the "
        "scaler's factor, and the scaler cannot skip it; use bfloat16 without a scaler, or "
        "step after the backward pass"
    )
    for call, _ in calls:
        yield finding_at(program, call, RULE, message)


def _steps(program: Program, call: ast.Call, scope: Scope) -> bool:
    func = call.func
    name = (
        func.attr
        if isinstance(func, ast.Attribute)
        else func.id
        if isinstance(func, ast.Name)
        else ""
    )
    if name == "_apply_optimizer_in_backward":
        return True
    return (
        name == _HOOK
        and bool(call.args)
        and _hook_steps(program, call.args[0], scope)
    )


def _hook_steps(program: Program, hook: ast.expr, scope: Scope) -> bool:
    body: ast.AST | None = hook if isinstance(hook, ast.Lambda) else None
    if isinstance(hook, ast.Name):
        body = program.graph.function_named(hook.id, scope)
    elif isinstance(hook, ast.Attribute):
        around = program.graph.class_around(scope)
        body = (
            program.graph.method(around, hook.attr)
            if around is not None
            else None
        )
    return body is not None and any(
        isinstance(call.func, ast.Attribute) and call.func.attr == "step"
        for call in calls_in(body)
    )
