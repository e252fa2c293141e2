"""A gradient penalty is computed from gradients that are still scaled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.events import EventKind
from amp_migrate.model.program import Program
from amp_migrate.model.recognition import Events
from amp_migrate.model.syntax import Scope

RULE = Rule("grad-penalty-on-scaled-grads", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find `autograd.grad(scaler.scale(...), create_graph=True)` in scopes that never ask for
    the scale.
    """
    if "create_graph" not in program.module.text:
        return
    events = program.events
    message = (
        "these gradients still carry the scaler's factor (65,536 at first), so the penalty "
        "swamps the loss; multiply them "
        "by `1.0 / scaler.get_scale()` first"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if (
                program.canonical(call.func) == "torch.autograd.grad"
                and _keeps_graph(call)
                and _of_scaled(events, call, scope)
            ):
                if not any(
                    isinstance(c.func, ast.Attribute)
                    and c.func.attr in {"get_scale", "_get_scale_async"}
                    for c in scope.calls
                ):
                    yield finding_at(program, call, RULE, message)


def _keeps_graph(call: ast.Call) -> bool:
    given = next(
        (k.value for k in call.keywords if k.arg == "create_graph"), None
    )
    return given is not None and not (
        isinstance(given, ast.Constant) and not given.value
    )


def _of_scaled(events: Events, call: ast.Call, scope: Scope) -> bool:
    outputs = (
        call.args[0]
        if call.args
        else next((k.value for k in call.keywords if k.arg == "outputs"), None)
    )
    if isinstance(outputs, ast.Name):
        home = scope.lookup(outputs.id)
        values = (
            [b.value for b in home.bindings[outputs.id]]
            if home is not None
            else []
        )
        return bool(values) and all(
            v is not None and _is_scaled(events, v, scope) for v in values
        )
    return outputs is not None and _is_scaled(events, outputs, scope)


def _is_scaled(events: Events, expr: ast.expr, scope: Scope) -> bool:
    parts = expr.elts if isinstance(expr, (ast.List, ast.Tuple)) else [expr]
    return any(events.what(part, scope) == EventKind.SCALE for part in parts)
