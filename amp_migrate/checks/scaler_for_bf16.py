"""A GradScaler is used with bfloat16, which does not need one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._regions import Region, is_autocast, regions
from amp_migrate.config import Settings
from amp_migrate.edits import AddArgument
from amp_migrate.lint.finding import Finding, Fix, Rule, finding_at
from amp_migrate.model.mistakes import events_of
from amp_migrate.model.program import Program

RULE = Rule("scaler-for-bf16", severity="info")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Ask for enabled scalers in a module whose regions are all bfloat16."""
    if "caler" not in program.module.text or not regions(program):
        return
    enabled = [r for r in regions(program) if not r.off]
    calls = [c for s in program.module.scopes.values() for c in s.calls if is_autocast(program, c)]
    if not enabled or len(calls) > len(regions(program)) or any(_dtype(r) != "bfloat16" for r in enabled):
        return
    message = (
        "bfloat16 has the range of float32 and needs no scaler, which costs a synchronisation per step; switch it off"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if events_of(program).what(call, scope) != "created":
                continue
            given = next((k.value for k in call.keywords if k.arg == "enabled"), None)
            if given is None or (isinstance(given, ast.Constant) and given.value):
                yield finding_at(
                    program,
                    call,
                    RULE,
                    message,
                    related=[(enabled[0].place, "bfloat16 here")],
                    fix=_fix(program, call, given),
                )


def _dtype(region: Region) -> str | None:
    """The type, where it is written out."""
    return region.dtype if region.argument("dtype") is not None else None


def _fix(program: Program, call: ast.Call, given: ast.expr | None) -> Fix:
    if given is not None:
        return Fix("safe", "switch the scaler off", (Code(program, call).replace(given, "False"),))
    return Fix("safe", "switch the scaler off", (AddArgument(program.module.span(call), "enabled", "False"),))
