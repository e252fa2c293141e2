"""A thread is started inside an autocast region, which does not reach it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._regions import region_of, regions
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("autocast-in-wrong-thread", severity="info", default=False)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find threads that are started in a region."""
    if not regions(program):
        return
    message = (
        "a new thread starts with autocast off; write `with autocast` inside the function "
        "that it runs"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            region = (
                region_of(program, call) if _starts(program, call) else None
            )
            if region is not None and not region.off:
                yield finding_at(
                    program,
                    call,
                    RULE,
                    message,
                    related=[(region.place, "the autocast block")],
                )


def _starts(program: Program, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr in {
        "submit",
        "run_in_executor",
    }:
        return True
    return program.canonical(call.func) == "threading.Thread" and any(
        k.arg == "target" for k in call.keywords
    )
