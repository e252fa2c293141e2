"""`functools.partial(step, model, x)` runs nothing: what it holds runs where it is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.handed_calls import PARTIALS
from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.syntax.substitution import made_call

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.syntax.module import Module, Scope

_HOPS = 4


def bound_call(module: Module, expr: ast.expr) -> ast.Call | None:
    """The call that a partial makes when it is called, as far as it can be told from there."""
    if not isinstance(expr, ast.Call) or not expr.args:
        return None
    if module.canonical(expr.func) not in PARTIALS:
        return None
    return made_call(expr.args[0], expr.args[1:], expr.keywords)


def bound_calls(
    program: Program, func: ast.expr, scope: Scope, hops: int = _HOPS
) -> Iterator[tuple[Program, ast.Call, Scope]]:
    """The calls that a variable may make when it is called: of the partials that it may hold,
    through parameters, too.
    """
    for home, value, where in held(program, func, scope) if hops else ():
        call = bound_call(home.module, value)
        if call is not None:
            yield home, call, where
        elif isinstance(value, ast.Name) and value is not func:
            yield from bound_calls(home, value, where, hops - 1)
