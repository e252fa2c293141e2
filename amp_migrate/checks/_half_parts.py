"""Layers and parameters that a trained model makes in float16."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._half_weights import converts
from amp_migrate.model.forwards.module_places import Found
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.held_parameters import held, optimized
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.torch_facts.amp_api import HALVES
from amp_migrate.torch_facts.layers import layer

_PARAMETER = "torch.nn.Parameter"
_FROZEN = {"requires_grad", "requires_grad_", "no_grad"}


def half_parts(program: Program) -> Iterator[ast.Call]:
    """The calls that make them, of models whose optimizer a scaler steps."""
    text = program.module.text
    if "half" not in text and "float16" not in text:
        return
    told: set[ast.Call] = set()
    for scope in program.events.scaler_scopes():
        for call in scope.calls:
            what = program.events.what(call, scope)
            if what is EventKind.SCALER_STEP and call.args:
                for made in optimized(program, call.args[0], scope):
                    for whole in made:
                        told |= set(_in_model(program, whole))
    yield from sorted(told, key=lambda one: (one.lineno, one.col_offset))


def _in_model(program: Program, whole: Found) -> Iterator[ast.Call]:
    seen: set[ast.ClassDef] = set()
    for part in held(whole):
        if part.cls is not None and part.program is program:
            yield from _in_class(program, part.cls, seen)
        elif part.call is not None and part.frame.program is program:
            yield from _in_maker(program, part.call)


def _in_maker(
    program: Program,
    made: ast.Call,
) -> Iterator[ast.Call]:
    """The layers that stand in a call, as in that of a Sequential."""
    for call in nodes_in(made):
        if isinstance(call, ast.Call) and _is_half(program, call):
            yield call


def _in_class(
    program: Program, cls: ast.ClassDef, seen: set[ast.ClassDef]
) -> Iterator[ast.Call]:
    """What the methods of a class keep, and the classes that they make, but for one that freezes
    some of its parts.
    """
    words = (n.attr for n in nodes_in(cls) if isinstance(n, ast.Attribute))
    if cls in seen or not _FROZEN.isdisjoint(words):
        return
    seen.add(cls)
    for owner in program.graph.lineage(cls):
        for method in owner.body:
            if not isinstance(method, FUNCTIONS):
                continue
            scope = program.scope(method)
            for call in scope.calls:
                inner = program.values.of(call, scope).cls
                if inner is not None:
                    yield from _in_class(program, inner, seen)
                elif _is_kept(program, call, scope):
                    yield from _in_maker(program, call)


def _is_kept(
    program: Program,
    call: ast.Call,
    scope: Scope,
) -> bool:
    """Whether a statement that sets an attribute of the object makes it."""
    statement = program.module.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == scope.self_name
    )


def _is_half(program: Program, call: ast.Call) -> bool:
    if program.canonical(call.func) == _PARAMETER:
        inner = (n for n in nodes_in(call) if isinstance(n, ast.Call))
        return any(
            converts(program, one) or _asks_half(program, one) for one in inner
        )
    made = call.func.value if isinstance(call.func, ast.Attribute) else None
    if converts(program, call):
        return isinstance(made, ast.Call) and _is_layer(program, made)
    return _is_layer(program, call) and _asks_half(program, call)


def _is_layer(program: Program, call: ast.Call) -> bool:
    return layer(program.canonical(call.func) or "") is not None


def _asks_half(program: Program, call: ast.Call) -> bool:
    """`dtype=torch.float16`"""
    return any(
        one.arg == "dtype"
        and HALVES.get(program.canonical(one.value) or "") == "float16"
        for one in call.keywords
    )
