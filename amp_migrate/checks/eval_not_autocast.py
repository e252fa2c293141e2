"""Training runs under autocast, evaluation in float32."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._regions import region_of, regions, without_gradients
from amp_migrate.config import Settings
from amp_migrate.model.events import EventKind
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import LOOPS

RULE = Rule("eval-not-autocast", severity="info", default=False)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find forward passes without gradients outside autocast, in a module that trains
    under it.
    """
    enabled = [r for r in regions(program) if not r.off]
    if not enabled or not any(_trains(program, r.scope) for r in enabled):
        return
    message = (
        "training runs under autocast and this evaluation in float32: slower, and of a "
        "slightly different model"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if (
                program.effects.is_forward(call, scope)
                and without_gradients(program, call)
                and _in_loop(program, call)
            ):
                if program.values.callee(call, scope) is None and region_of(program, call) is None:
                    yield finding_at(program, call, RULE, message)


def _trains(program: Program, scope: object) -> bool:
    events = program.events
    return any(
        events.what(c, s) == EventKind.BACKWARD
        for s in program.module.scopes.values()
        if s is scope
        for c in s.calls
    )


def _in_loop(program: Program, call: ast.Call) -> bool:
    return any(
        isinstance(a, (*LOOPS, ast.comprehension, ast.GeneratorExp, ast.ListComp))
        for a in program.module.ancestors(call)
    )
