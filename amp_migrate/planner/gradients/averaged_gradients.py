"""Calls that average gradients over processes: `unscale_` goes behind them, or one process would
skip a step that the others do with its overflow.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.steps.effects import is_reducer
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.syntax.queries import nodes_in


def averages(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call, or all that it may run and that reads gradients, averages them."""
    if is_reducer(call):
        return True
    functions = _run(program, call, scope)
    return bool(functions) and all(
        any(isinstance(n, ast.Call) and is_reducer(n) for n in nodes_in(one))
        for one in functions
    )


def _run(program: Program, call: ast.Call, scope: Scope) -> list[Function]:
    """The function that a call runs; else, of the methods that its name may mean, those that read
    gradients.
    """
    function = program.values.callee(call, scope)
    if function is not None or not isinstance(call.func, ast.Attribute):
        return [function] if function is not None else []
    return [
        one
        for one in program.graph.methods_named(call.func.attr)
        if program.effects.of_function(one) & EventKind.READS_GRADIENTS
    ]
