"""The learning-rate scheduler steps even when the scaler skipped the optimizer's step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.values.kinds import Kind, scheduler_name

RULE = Rule("scheduler-steps-on-skipped-step", severity="info", default=False)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find schedulers stepped right behind a step of the scaler."""
    events = program.events
    message = (
        "the scheduler steps even where the scaler skipped the step; step it only where "
        "`get_scale()` has not become smaller"
    )
    for scope in events.scaler_scopes():
        for call in scope.calls:
            if events.what(call, scope) != EventKind.SCALER_STEP:
                continue
            for statement in _behind(program, call):
                step = statement.value if hasattr(statement, "value") else None
                if (
                    step in scope.calls
                    and getattr(step.func, "attr", "") == "step"
                ):
                    holder = receiver(step)
                    name = (dotted_name(holder) or "").rpartition(".")[2]
                    kind = program.values.kind(holder, scope)
                    if kind is Kind.SCHEDULER or (
                        kind is Kind.UNKNOWN and scheduler_name(name)
                    ):
                        yield finding_at(
                            program,
                            step,
                            RULE,
                            message,
                            related=[(call, "the scaler may skip this step")],
                        )


def _behind(program: Program, call: ast.Call) -> Iterator[ast.stmt]:
    """The statements behind the scaler's step, and behind the `if` that it stands in."""
    code = Code(program, call)
    here: ast.AST = code.statement
    while isinstance(here, ast.stmt):
        yield from code.after(here)
        here = program.module.parents[here]
        if not isinstance(here, (ast.If, ast.With, ast.Try)):
            return
