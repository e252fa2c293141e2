"""A GradScaler is used, and no autocast is in sight."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.naming.names import dotted_name
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
                and not _is_handed_on(program, call)
            ):
                yield finding_at(program, call, RULE, message)


def _is_under_others(scope: Scope) -> bool:
    """Whether a file beside this one that speaks of it opens autocast."""
    path = Path(scope.module.path).absolute()
    return any(
        b"autocast" in text and path.stem.encode() in text
        for _, text in nearby.beside(path)
    )


def _is_handed_on(program: Program, made: ast.Call) -> bool:
    """Whether the scaler is given to what another file defines: autocast may be on there."""
    names = _names_of(program.module.parents[made])
    return any(
        _takes(call, names)
        and not program.values.callees(call, scope)
        and not (program.canonical(call.func) or "").startswith("torch.")
        for scope in program.module.scopes.values()
        for call in scope.calls
    )


def _names_of(statement: ast.AST) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {name for one in targets if (name := dotted_name(one)) is not None}


def _takes(call: ast.Call, names: set[str]) -> bool:
    given = [*call.args, *(one.value for one in call.keywords)]
    return any(dotted_name(one) in names for one in given)
