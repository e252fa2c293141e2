"""Calls of models and losses of which no code is found, so that nobody has looked for what half
precision breaks there; and the files that may show more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from amp_migrate.model.events import EventKind
from amp_migrate.model.kinds import Kind, criterion_name
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.queries import nodes_in
from amp_migrate.model.syntax import FUNCTIONS, Scope
from amp_migrate.model.targets import makers, targets
from amp_migrate.model.unknown_models import (
    methods_abroad,
    possible,
    says_no_class,
)
from amp_migrate.planner.half_safety.reach import leads_to, reachable
from amp_migrate.torch_facts import layers

OpenCall: TypeAlias = "tuple[ast.Call, Scope]"
_RUNS = EventKind.FORWARD | EventKind.CALLABLE
_SAYS_NO_CLASS = (None, "torch.nn.Module", *layers.WRAPPERS)
_HOPS = 6


def open_calls(
    program: Program, regions: Iterable[tuple[Scope, list[ast.stmt]]]
) -> list[OpenCall]:
    """Those among all that the regions run in this program. The layers of a module are of classes
    that its own class leads to.
    """
    return [
        (node, where)
        for scope, statements in regions
        for node, where in reachable(program, statements, scope)
        if isinstance(node, ast.Call)
        and not _is_layer(program, node.func, where)
        and _is_open(program, node, where)
    ]


def is_guessed(program: Program, call: OpenCall) -> bool:
    """Whether at least all that it may run, of the classes that the program names, was read."""
    return any(possible(program, *call)) or any(methods_abroad(program, *call))


def waits_for(program: Program, opened: Iterable[OpenCall]) -> Iterator[Scope]:
    """The functions whose callers would tell what open calls run."""
    for call, scope in opened:
        func = call.func
        yield from unfilled(program, func, scope)
        if isinstance(func, ast.Attribute):
            yield from unfilled(program, func.value, scope)


def _is_layer(program: Program, func: ast.expr, scope: Scope) -> bool:
    name = dotted_name(func) or ""
    cls = program.graph.class_around(scope)
    if cls is None or name.partition(".")[0] != scope.self_name:
        return False
    return program.values.class_kind(cls) in (Kind.MODEL, Kind.CRITERION)


def _is_open(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call runs a model or a loss, and nothing tells which."""
    value = program.values.of(call.func, scope)
    named = (dotted_name(call.func) or "").rpartition(".")[2]
    is_loss = value.kind is Kind.CRITERION or criterion_name(named)
    if not (is_loss or program.effects.forward_of(call, scope) & _RUNS):
        return False
    if value.cls is not None or value.foreign is not None:
        return False
    if value.name not in _SAYS_NO_CLASS:
        return False
    if program.canonical(call.func) is not None:
        return False
    return not (
        targets(program, call, scope)
        or any(leads_to(program, call, scope))
        or _is_of_library(program, call.func, scope)
    )


def _is_of_library(program: Program, func: ast.expr, scope: Scope) -> bool:
    """Whether something that makes the model, or holds it, is a library's."""
    owner = func.value if isinstance(func, ast.Attribute) else func
    return any(
        isinstance(one, ast.expr)
        and one in program.module.parents
        and not says_no_class(program, one)
        for expr in (func, owner)
        for one in makers(program, expr, scope)
    )


def unfilled(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> Iterator[Scope]:
    """The functions, or the methods of classes, that hold what an expression is of: a parameter
    that no call in sight gives, an attribute that nothing in sight sets.
    """
    for name in _heads(expr) if hops else ():
        bindings = program.reaching.at(name, dotted_name(name) or "").bindings
        if not bindings:
            yield scope
        for one in bindings:
            if one.how == "parameter" and one.statement is not None:
                yield from _callers(program, one.statement, hops)
            elif one.value is not None and one.value in program.module.parents:
                where = program.module.scope_of(one.value)
                yield from unfilled(program, one.value, where, hops - 1)


def _callers(
    program: Program, parameter: ast.AST, hops: int
) -> Iterator[Scope]:
    inner = program.module.scope_of(parameter)
    sites = (
        program.reaching.entry.sites(inner.node)
        if isinstance(inner.node, FUNCTIONS)
        else ()
    )
    given = [
        (one, where)
        for call, where, _ in sites
        for one in (*call.args, *(entry.value for entry in call.keywords))
    ]
    if not given:
        yield inner
    for one, where in given:
        yield from unfilled(program, one, where, hops - 1)


def _heads(expr: ast.expr) -> list[ast.expr]:
    """The variables that an expression is made of, calls of them left out."""
    if dotted_name(expr) is not None:
        return [expr]
    return [
        one
        for one in nodes_in(expr)
        if isinstance(one, (ast.Name, ast.Attribute))
        and dotted_name(one) is not None
    ]
