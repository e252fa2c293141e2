"""A GradScaler is used, and no autocast is in sight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.scalers import is_disabled
from amp_migrate.model.syntax.module import Scope
from amp_migrate.project import nearby

RULE = Rule("scaler-without-autocast", severity="info", default=False)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find a scaler in a module without autocast."""
    if "autocast" in program.module.text:
        return
    message = (
        "without autocast there is nothing to scale for; run forward and loss under "
        "autocast, unless the model does it"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if (
                program.events.what(call, scope) == EventKind.SCALER_CREATED
                and not is_disabled(call)
                and not _is_under_others(scope)
            ):
                yield finding_at(program, call, RULE, message)


def _is_under_others(scope: Scope) -> bool:
    """Whether a file beside this one that speaks of it opens autocast."""
    path = Path(scope.module.path).absolute()
    return any(
        b"autocast" in text and path.stem.encode() in text
        for _, text in nearby.beside(path)
    )
