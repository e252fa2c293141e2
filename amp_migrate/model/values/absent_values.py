"""Names and attributes that may hold None, as an optional optimizer does."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Binding

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 4


def may_be_none(program: Program, expr: ast.expr, deep: int = _DEEP) -> bool:
    """Whether something in sight gives None where a value is read."""
    if isinstance(expr, ast.Constant):
        return expr.value is None
    if isinstance(expr, ast.IfExp):
        arms = (expr.body, expr.orelse)
        return any(may_be_none(program, one, deep) for one in arms)
    dotted = dotted_name(expr)
    if dotted is None or not deep or expr not in program.module.parents:
        return False
    bindings = program.reaching.at(expr, dotted).bindings
    return any(_gives_none(program, one, deep - 1) for one in bindings)


def _gives_none(program: Program, binding: Binding, deep: int) -> bool:
    if binding.how == "parameter" and isinstance(binding.statement, ast.arg):
        return _passes_none(program, binding.statement, deep)
    is_plain = binding.how == "assign" and binding.index is None
    if not is_plain or binding.value is None:
        return False
    return may_be_none(program, binding.value, deep)


def _passes_none(program: Program, parameter: ast.arg, deep: int) -> bool:
    """A default of None counts whoever calls."""
    scope = program.module.scope_of(parameter)
    if not isinstance(scope.node, FUNCTIONS):
        return False
    default = default_of(scope.node, parameter.arg)
    if default is not None and may_be_none(program, default, deep):
        return True
    given = (
        argument(call, scope, parameter.arg, bound)
        for call, _, bound in program.reaching.entry.sites(scope.node)
    )
    return any(
        may_be_none(program, one, deep) for one in given if one is not None
    )
