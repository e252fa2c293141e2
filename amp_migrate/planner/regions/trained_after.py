"""Whether a method that runs the model calls one that steps whenever it does: an evaluation may
share it, of an object that has no scaler.
"""

from __future__ import annotations

import ast
from functools import partial

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import always_runs, any_in, calls_in

_SIMPLE = (ast.Assign, ast.Expr, ast.Return)


def trains_after(program: Program, scope: Scope, place: ast.stmt) -> bool:
    """Whether a statement behind `place`, in its block, calls a method that steps."""
    block = program.module.block_of(place)
    for statement in block[block.index(place) + 1 :]:
        simple = isinstance(statement, _SIMPLE)
        if simple and any(
            _trains(program, call, scope) for call in calls_in(statement)
        ):
            return True
        if any_in(statement, ast.Return):
            return False
    return False


def _trains(program: Program, call: ast.Call, scope: Scope) -> bool:
    owner, _, rest = (dotted_name(call.func) or "").partition(".")
    if owner != scope.self_name or not rest or "." in rest:
        return False
    run = program.values.callees(call, scope)
    return bool(run) and all(
        always_runs(one.body, partial(_steps, program, program.scope(one)))
        for one in run
    )


def _steps(program: Program, scope: Scope, call: ast.Call) -> bool:
    effects = program.effects
    return effects.is_step(call, scope) or effects.is_backward(call, scope)
