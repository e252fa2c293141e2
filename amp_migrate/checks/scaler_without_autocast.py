"""A GradScaler is used, and no autocast is in sight."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.config import Settings
from amp_migrate.lint.finding import Finding, Rule, finding_at
from amp_migrate.model.events import is_disabled
from amp_migrate.model.mistakes import events_of
from amp_migrate.model.program import Program

RULE = Rule("scaler-without-autocast", severity="info", default=False)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Ask for a scaler in a module without autocast."""
    if "autocast" in program.module.text:
        return
    message = (
        "without autocast there is nothing to scale for; run forward and loss under autocast, unless the model does it"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if events_of(program).what(call, scope) == "created" and not is_disabled(call):
                yield finding_at(program, call, RULE, message)
