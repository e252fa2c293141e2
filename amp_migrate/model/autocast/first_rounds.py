"""Values that are half precision in the first round of a loop, whatever later rounds make of them:
what raises on half precision raises then.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import LOOPS, Binding, Scope
from amp_migrate.model.tensors.parameters import arguments

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 6


def half_at_first(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> bool:
    """Whether a value is half for certain, always or when the loops around begin; of a parameter,
    in one of the calls in sight.
    """
    if program.precision.half(expr, scope) is not None:
        return True
    if not isinstance(expr, ast.Name) or not hops:
        return False
    found = list(program.reaching.at(expr, expr.id).bindings)
    if len(found) > 1:
        found = _first(program, expr, found)
    return len(found) == 1 and _gives_half(program, found[0], hops - 1)


def _first(
    program: Program, use: ast.Name, bindings: list[Binding]
) -> list[Binding]:
    """Those of the bindings that reach the first round: the others stand in the loop around, not
    before the use.
    """
    module = program.module
    loop = next(
        (n for n in module.ancestors(use) if isinstance(n, LOOPS)), None
    )
    if loop is None:
        return []
    inside = [b for b in bindings if loop in module.ancestors(b.statement)]
    here = module.statement_of(use).lineno
    if any(module.statement_of(b.statement).lineno < here for b in inside):
        return []
    return [one for one in bindings if one not in inside]


def _gives_half(program: Program, binding: Binding, hops: int) -> bool:
    if binding.how == "parameter":
        return any(
            half_at_first(program, given, where, hops)
            for given, where in arguments(program, binding)
        )
    value = binding.value
    if binding.how != "assign" or value is None:
        return False
    return half_at_first(program, value, program.module.scope_of(value), hops)
