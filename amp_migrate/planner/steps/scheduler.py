"""`--guard-scheduler`: a per-batch scheduler steps only if the optimizer did, that is, if the
scale did not drop.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.values.kinds import Kind, scheduler_name
from amp_migrate.planner.loop import Stepper
from amp_migrate.planner.steps.step_sequence import Cycle
from amp_migrate.rewrite.edits import (
    Edit,
    InsertAfter,
    ReplaceStatement,
    Template,
)

BEFORE = "scale_before"


def guard_edits(
    program: Program, stepper: Stepper, cycle: Cycle, scaler: str
) -> list[Edit]:
    """Updates, with the scheduler's step after them made conditional where one follows in the same
    block.
    """
    edits: list[Edit] = []
    for anchor in cycle.update_anchors():
        update = Template(f"{scaler}.update()")
        span = program.module.span
        scheduled = _scheduler_after(program, stepper, anchor)
        if scheduled is None:
            edits.append(InsertAfter(span(anchor), (update,)))
        else:
            edits.append(
                InsertAfter(
                    span(anchor),
                    (Template(f"{BEFORE} = {scaler}.get_scale()"), update),
                )
            )
            guarded = Template(
                f"if {scaler}.get_scale() >= {BEFORE}:\n    $0",
                (span(scheduled),),
            )
            edits.append(ReplaceStatement(span(scheduled), (guarded,)))
    return edits


def _scheduler_after(
    program: Program, stepper: Stepper, anchor: ast.stmt
) -> ast.stmt | None:
    """The `scheduler.step()` that follows `anchor` in its block."""
    block = program.module.block_of(anchor)
    place = next(i for i, s in enumerate(block) if s is anchor)
    for statement in block[place + 1 :]:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "step"
        ):
            value = program.values.of(call.func.value, stepper.scope)
            named = scheduler_name(
                (dotted_name(call.func.value) or "").rpartition(".")[2]
            )
            if value.kind is Kind.SCHEDULER or (not value and named):
                return statement
    return None
