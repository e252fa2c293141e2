"""Calls that run models, and none of them with gradients: a pass over the test set, pseudo labels
for the next epochs, a target network in a helper.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.forwards.sequence_calls import sequences
from amp_migrate.model.gradients.flow import (
    functions_run,
    is_no_grad,
    under_no_grad,
)
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Function, Scope, shallow

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 6


def runs_quietly(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call that runs a model does so under `no_grad`, in the helpers in sight that it
    leads to.
    """
    return program.remembered(
        (runs_quietly, call, scope), lambda: _is_quiet(program, call, scope, ())
    )


def all_quiet(program: Program, statement: ast.stmt, scope: Scope) -> bool:
    """Whether a statement runs models, and none of them with gradients."""
    calls = _forwards(program, (statement,), scope)
    return bool(calls) and all(runs_quietly(program, c, scope) for c in calls)


def _forwards(
    program: Program, statements: tuple[ast.stmt, ...], scope: Scope
) -> list[ast.Call]:
    return [
        node
        for statement in statements
        for node in shallow(statement)
        if isinstance(node, ast.Call)
        and program.effects.of_node(node, scope) & EventKind.FORWARD
    ]


def _is_quiet(
    program: Program,
    call: ast.Call,
    scope: Scope,
    seen: tuple[Function, ...],
) -> bool:
    if under_no_grad(program, call):
        return True
    functions = functions_run(program, call, scope) or _in_order(
        program, call, scope
    )
    return bool(functions) and all(
        _is_quiet_inside(home, one, seen) for home, one in functions
    )


def _in_order(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[Program, Function]]:
    """What `nn.Sequential(Flip(), Noise())` runs; nothing where not each layer is of a class in
    sight.
    """
    made = [one for _, one in sequences(program, call, scope)]
    layers = [one for sequence in made for one in sequence.args]
    found = []
    for one in layers:
        cls = program.values.of(one, program.module.scope_of(one)).cls
        forward = program.graph.method(cls, "forward") if cls else None
        found += [(program, forward)] if forward is not None else []
    return found if len(found) == len(layers) else []


def _is_quiet_inside(
    program: Program, function: Function, seen: tuple[Function, ...]
) -> bool:
    """Whether a function runs models, each of them under `no_grad`."""
    if function in seen or len(seen) >= _DEEP:
        return False
    if any(is_no_grad(mark, program) for mark in function.decorator_list):
        return True
    scope = program.scope(function)
    calls = _forwards(program, tuple(function.body), scope)
    return bool(calls) and all(
        _is_quiet(program, call, scope, (*seen, function)) for call in calls
    )
