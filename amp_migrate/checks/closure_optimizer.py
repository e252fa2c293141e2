"""A closure is handed to the scaler's step."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.config import Settings
from amp_migrate.lint.finding import Finding, Rule, finding_at
from amp_migrate.model.mistakes import events_of
from amp_migrate.model.program import Program

RULE = Rule("closure-optimizer", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Ask for steps of a scaler with a second argument."""
    events = events_of(program)
    message = (
        "GradScaler does not support closures: by keyword this raises, by position the closure's gradients are never "
        "unscaled; use bfloat16 without a scaler"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            given = len(call.args) > 1 or any(k.arg == "closure" for k in call.keywords)
            if given and events.what(call, scope) == "scaler-step":
                yield finding_at(program, call, RULE, message)
