"""What a loss was computed from, as the planner follows it."""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope


def loss_steps(
    program: Program, loss: ast.expr, statement: ast.stmt, scope: Scope
) -> list[ast.AST]:
    """The statements above `statement` that `loss`, written in it, was computed in. The planner
    takes long to import, and few files come here.
    """
    from amp_migrate.planner.regions.loss_flow import Flow

    steps = Flow(scope, program).slice(loss, statement)
    return [step.statement for step in steps]
