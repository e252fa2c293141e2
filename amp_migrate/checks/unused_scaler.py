"""A GradScaler is made and never used, beside a loop that trains in float32."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import regions
from amp_migrate.config import Settings
from amp_migrate.model.events import EventKind
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.scalers import is_disabled
from amp_migrate.model.syntax import FUNCTIONS, Scope

RULE = Rule("unused-scaler", severity="warning")
_MESSAGE = (
    "nothing uses this scaler, and nothing here runs under autocast: the loop trains in float32; "
    "use both, as `amp-migrate` does, or remove the scaler"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find scalers of a function or an object that nothing reads, where there is a plain loop
    and no region.
    """
    if "GradScaler" not in program.module.text or regions(program):
        return
    events = program.events
    for scope in program.module.scopes.values():
        for call in scope.calls:
            is_made = events.what(call, scope) is EventKind.SCALER_CREATED
            if (
                is_made
                and not is_disabled(call)
                and _is_idle(program, call, scope)
            ):
                yield finding_at(
                    program, call, RULE, _MESSAGE, fix=_fix(program, call)
                )


def _is_idle(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether nothing reads the name that it is kept under; one of a module may be imported."""
    statement = program.module.parents[call]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    name = dotted_name(statement.targets[0])
    if (
        name is None
        or not isinstance(scope.node, FUNCTIONS)
        or name in scope.outer
    ):
        return False
    if program.attributes.is_read(name.rpartition(".")[2]):
        return False
    loops = [scope] if "." not in name else _family(program, scope)
    return any(program.effects.backwards(one) for one in loops)


def _family(program: Program, scope: Scope) -> list[Scope]:
    """The methods of the class that keeps the scaler."""
    cls = program.graph.class_around(scope)
    scopes = program.module.scopes.values()
    return [
        one
        for one in scopes
        if cls is not None and program.graph.class_around(one) is cls
    ]


def _fix(program: Program, call: ast.Call) -> Fix:
    code = Code(program, call)
    return Fix("unsafe", "remove the scaler", (code.remove(code.statement),))
