"""Models that are handed to what moves anything: `fn(self.net)` of `fn = lambda x: x.cuda()`, and
`self.net.apply(fn)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.planner.devices.moves import Move
from amp_migrate.torch_facts.methods import RUN_ON_PARTS


def handed_to(program: Program, move: Move) -> Iterator[Move]:
    """A move of a parameter, as one at each call that hands a model over for it."""
    moved, names = move.moved, {one.arg for one in move.scope.parameters()}
    if not isinstance(moved, ast.Name) or moved.id not in names:
        return
    for call, scope, bound in _calls(program, move.scope):
        given = argument(call, move.scope, moved.id, bound)
        if given is not None and program.values.is_model(given, scope):
            yield replace(move, call=call, scope=scope, moved=given)
    for call, scope in _applied(program, move.scope):
        assert isinstance(call.func, ast.Attribute)
        yield replace(move, call=call, scope=scope, moved=call.func.value)


def _applied(
    program: Program, scope: Scope
) -> Iterator[tuple[ast.Call, Scope]]:
    """The calls that run a function on each part of a model: `net.apply(place)`."""
    for where in program.module.scopes.values():
        if where.module is not scope.module:
            continue
        for call in where.calls:
            func = call.func
            if not isinstance(func, ast.Attribute):
                continue
            if func.attr not in RUN_ON_PARTS or len(call.args) != 1:
                continue
            if _is_function(program, call.args[0], scope.node):
                yield call, where


def _is_function(program: Program, expr: ast.expr, function: ast.AST) -> bool:
    """Whether an expression is a lambda, or the name of a function or lambda."""
    if not isinstance(expr, ast.Name):
        return expr is function
    for one in program.reaching.at(expr, expr.id).bindings:
        if one.statement is function or _holds(one.value, function):
            return True
    return False


def _calls(
    program: Program, scope: Scope
) -> Iterator[tuple[ast.Call, Scope, bool]]:
    """The calls of a function, or of a name that may hold a lambda."""
    if isinstance(scope.node, FUNCTIONS):
        yield from program.reaching.entry.sites(scope.node)
        return
    for where in program.module.scopes.values():
        for call in where.calls if where.module is scope.module else ():
            if isinstance(call.func, ast.Name):
                reach = program.reaching.at(call.func, call.func.id)
                if any(_holds(one.value, scope.node) for one in reach.bindings):
                    yield call, where, False


def _holds(value: ast.expr | None, function: ast.AST) -> bool:
    if isinstance(value, ast.IfExp):
        return _holds(value.body, function) or _holds(value.orelse, function)
    return value is function
