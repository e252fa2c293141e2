"""Optimizers that code out of sight is handed, and of which it gives back what it likes:
`model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer)`.
"""

from __future__ import annotations

import ast

from amp_migrate.model.calls.bodies_abroad import body_abroad
from amp_migrate.model.dataflow.sources import Part, held
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Kind

_HOPS = 4


def given_back(
    program: Program, optimizer: ast.expr, scope: Scope
) -> ast.Call | None:
    """The call that may have made what a step finds, of the optimizer that is known."""
    wanted: list[Part] = [(program, optimizer, scope)]
    seen = {optimizer}
    for _ in range(_HOPS):
        found = [
            one
            for home, expr, where in wanted
            if isinstance(expr, (ast.Name, ast.Attribute))
            for one in held(home, expr, where)
        ]
        wanted = [one for one in found if one[1] not in seen]
        seen.update(expr for _, expr, _ in wanted)
        for home, expr, where in wanted:
            if isinstance(expr, ast.Call) and _hides(home, expr, where):
                return expr
    return None


def _hides(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call that is handed an optimizer runs code that nobody sees. A class is told by
    what it is called.
    """
    values = program.values
    last = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if isinstance(call.func, ast.Name):
        last = call.func.id
    if last[:1].isupper():
        return False
    given = [*call.args, *(one.value for one in call.keywords)]
    if not any(values.kind(one, scope) is Kind.OPTIMIZER for one in given):
        return False
    if values.of(call, scope) or values.callees(call, scope):
        return False
    is_abroad = values.abroad(call.func, scope) is not None
    return not is_abroad and body_abroad(program, call, scope) is None
