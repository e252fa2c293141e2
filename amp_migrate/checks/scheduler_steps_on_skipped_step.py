"""The learning-rate scheduler steps even when the scaler skipped the optimizer's step."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.events import EventKind
from amp_migrate.model.kinds import Kind, scheduler_name
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program

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
            code = Code(program, call)
            for statement in code.after(code.statement):
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
