"""Values that code out of sight makes under autocast of half ones: `seen, _ = pipe.apply(fake)`.
They are taken for half where a float32 model gets them outside.
"""

from __future__ import annotations

import ast

from amp_migrate.model.calls.bodies_abroad import body_abroad
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.spelling import spelled
from amp_migrate.planner.half_safety.hazards import Hazards


def may_be_half(
    program: Program, expr: ast.expr, scope: Scope, hazards: Hazards
) -> bool:
    """Whether a name holds what such code has made in a region."""
    if not isinstance(expr, ast.Name):
        return False
    if hazards.asked.fact(expr, scope).dtypes != DType.UNKNOWN:
        return False
    for binding in program.reaching.at(expr, expr.id).bindings:
        made = binding.value
        if not isinstance(made, ast.Call):
            continue
        if made not in program.module.parents:
            continue
        where = program.module.scope_of(made)
        if _hides(program, made, where, hazards):
            return True
    return False


def _hides(
    program: Program, call: ast.Call, scope: Scope, hazards: Hazards
) -> bool:
    """Whether a call under autocast hands half values to code that nobody sees."""
    inference = hazards.asked.inference
    if not inference.inside(call):
        return False
    given = [*call.args, *(one.value for one in call.keywords)]
    if not any(hazards.asked.fact(one, scope).seen_half for one in given):
        return False
    if spelled(inference, call, scope) is not None:
        return False
    if program.values.callees(call, scope):
        return False
    return body_abroad(program, call, scope) is None
