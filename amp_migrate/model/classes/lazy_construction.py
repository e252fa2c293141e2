"""Statements that make the optimizer, as `self.build(x)` does with the first batch: the scaler is
made beside it, so that no region can begin before.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope, shallow
from amp_migrate.model.values.kinds import Kind

_HOPS = 3


def makes_optimizer(
    program: Program, statement: ast.stmt, scope: Scope
) -> bool:
    """Whether a function that runs in a statement makes an optimizer, through a few calls."""
    calls = (n for n in shallow(statement) if isinstance(n, ast.Call))
    return any(_makes(program, call, scope, _HOPS) for call in calls)


def _makes(program: Program, call: ast.Call, scope: Scope, hops: int) -> bool:
    function = program.values.callee(call, scope) if hops else None
    return function is not None and program.remembered(
        (makes_optimizer, function, hops),
        lambda: _makes_inside(program, function, hops - 1),
    )


def _makes_inside(program: Program, function: Function, hops: int) -> bool:
    scope = program.scope(function)
    return any(
        program.values.kind(call, scope) is Kind.OPTIMIZER
        or _makes(program, call, scope, hops)
        for call in scope.calls
    )
