"""Calls of models and losses of which no code is found, so that nobody has looked for what half
precision breaks there; and the files that may show more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from amp_migrate.model.calls.targets import makers, targets
from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.forwards.unknown_models import (
    methods_abroad,
    possible,
    says_no_class,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.spelling import kept_operator
from amp_migrate.model.values.kinds import Kind, criterion_name
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
        or _is_lambda(program, call.func, scope)
        or kept_operator(program, call.func) is not None
        or any(leads_to(program, call, scope))
        or _is_of_library(program, call.func, scope)
    )


def _is_lambda(program: Program, func: ast.expr, scope: Scope) -> bool:
    """Whether all that a variable may hold is written where it is set."""
    found = held(program, func, scope)
    return bool(found) and all(
        home is program and isinstance(value, ast.Lambda)
        for home, value, _ in found
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


def unfilled(program: Program, expr: ast.expr, scope: Scope) -> Iterator[Scope]:
    """The functions, or the methods of classes, that hold what an expression is of: a parameter
    that no call in sight gives, an attribute that nothing in sight sets.
    """
    wanted = [(expr, scope, _HOPS)]
    seen = {expr}
    for one, where, hops in wanted:  # grows while it is read, nearest first
        for binding in _heads_bound(program, one):
            if binding is None:
                yield where
                continue
            holders, behind = _behind(program, binding)
            yield from holders
            fresh = [(e, w) for e, w in behind if hops > 1 and e not in seen]
            seen.update(e for e, _ in fresh)
            wanted += [(e, w, hops - 1) for e, w in fresh]


def _heads_bound(program: Program, expr: ast.expr) -> Iterator[Binding | None]:
    """What binds the variables of an expression; None for one that nothing in sight binds."""
    for name in _heads(expr):
        found = program.reaching.at(name, dotted_name(name) or "").bindings
        yield from found or (None,)


def _behind(
    program: Program, binding: Binding
) -> tuple[list[Scope], list[tuple[ast.expr, Scope]]]:
    """The functions whose callers give what is bound, where none is in sight; and the expressions
    that it comes from.
    """
    if binding.how == "parameter" and binding.statement is not None:
        inner = program.module.scope_of(binding.statement)
        given = list(_given(program, inner))
        return ([] if given else [inner]), given
    value = binding.value
    if value is not None and value in program.module.parents:
        return [], [(value, program.module.scope_of(value))]
    return [], []


def _given(program: Program, inner: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """All that the calls of a function in sight are given."""
    if isinstance(inner.node, FUNCTIONS):
        for call, where, _ in program.reaching.entry.sites(inner.node):
            for one in (*call.args, *(entry.value for entry in call.keywords)):
                yield one, where


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
