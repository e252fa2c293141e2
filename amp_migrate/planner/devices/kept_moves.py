"""What is moved to a device, under the name that keeps it."""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.planner.devices.moves import Move
from amp_migrate.torch_facts.layers import WRAPPERS


def kept_as(program: Program, move: Move) -> list[ast.expr]:
    """`self.model` of `self.model = deepcopy(model).cuda()`."""
    statement = program.module.statement_of(move.call)
    if isinstance(statement, ast.Assign) and _gives(
        program, statement.value, move.call
    ):
        return list(statement.targets)
    return []


def _gives(program: Program, expr: ast.expr, call: ast.Call) -> bool:
    """Whether an expression may be what a call gives, or DataParallel around that."""
    if isinstance(expr, ast.IfExp):
        arms = expr.body, expr.orelse
        return any(_gives(program, one, call) for one in arms)
    if expr is call or not isinstance(expr, ast.Call) or not expr.args:
        return expr is call
    wraps = program.canonical(expr.func) in WRAPPERS
    return wraps and _gives(program, expr.args[0], call)
