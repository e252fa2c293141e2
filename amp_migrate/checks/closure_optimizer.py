"""A closure is handed to the scaler's step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.step_signatures import takes_no_closure
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.values.kinds import Kind

RULE = Rule("closure-optimizer", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find steps of a scaler with a second argument."""
    events = program.events
    message = (
        "GradScaler does not support closures: by keyword this raises, by position the closure's "
        "gradients are never "
        "unscaled; use bfloat16 without a scaler"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            given = len(call.args) > 1 or any(
                k.arg == "closure" for k in call.keywords
            )
            is_step = (
                given and events.what(call, scope) == EventKind.SCALER_STEP
            )
            if (
                is_step
                and _is_torchs(program, call, scope)
                and _takes_closure(program, call, scope)
                and not _is_left_out(program, call, scope)
            ):
                yield finding_at(program, call, RULE, message)


def _is_left_out(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether the closure is a parameter that is None where nobody gives it, and nobody does."""
    given = next(
        (k.value for k in call.keywords if k.arg == "closure"),
        call.args[1] if len(call.args) > 1 else None,
    )
    home = scope.lookup(given.id) if isinstance(given, ast.Name) else None
    if home is None or not isinstance(given, ast.Name):
        return False
    bound = home.bindings[given.id]
    if {one.how for one in bound} != {"parameter"}:
        return False
    if not isinstance(home.node, FUNCTIONS):
        return False
    default = default_of(home.node, given.id)
    if not isinstance(default, ast.Constant) or default.value is not None:
        return False
    return not any(
        argument(site.call, home, given.id, site.bound) is not None
        for site in program.graph.sites(home.node)
    )


def _takes_closure(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether the optimizer, for all that is in sight, takes what follows it for a closure."""
    stepped = call.args[0] if call.args else None
    value = program.values.of(stepped, scope) if stepped is not None else None
    return value is None or not takes_no_closure(
        program, value, call.args[1:], call.keywords
    )


def _is_torchs(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether the scaler is torch's own: that of another object may be of a class that takes
    closures.
    """
    assert isinstance(call.func, ast.Attribute)
    holder = call.func.value
    if program.values.of(holder, scope).kind is Kind.SCALER:
        return True
    return (dotted_name(holder) or "..").removeprefix("self.").count(".") == 0
