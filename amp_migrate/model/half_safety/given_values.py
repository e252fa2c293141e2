"""What a binding, or a call of a function or model in sight, gives: the expressions behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope, returned
from amp_migrate.model.tensors.inference import Inference


def values_of(
    inference: Inference, binding: Binding
) -> Iterator[tuple[ast.expr, Scope]]:
    """What a binding gives: the value, or what the callers pass."""
    value, place = binding.value, binding.index
    if binding.statement not in inference.program.module.parents:
        return  # a base class of another file sets the attribute
    if binding.how == "parameter":
        yield from inference.passed(binding)
        return
    if value is not None and binding.how == "for":
        yield from _gone_through(inference.program, value, place)
        return
    if value is None or binding.how not in ("assign", "walrus", "augmented"):
        return
    if place is not None and not isinstance(value, (ast.Tuple, ast.List)):
        yield from _element(inference.program, value, place)
        return
    if place is not None and isinstance(value, (ast.Tuple, ast.List)):
        value = value.elts[place] if place < len(value.elts) else value
    yield value, inference.program.module.scope_of(value)


def _gone_through(
    program: Program, iterable: ast.expr, index: int | None
) -> Iterator[tuple[ast.expr, Scope]]:
    """What a loop takes its values out of."""
    home = program.module.scope_of(iterable)
    if index is None:
        yield iterable, home
    elif isinstance(iterable, ast.Call):
        called, given = dotted_name(iterable.func), iterable.args
        if called == "enumerate" and index == 1 and given:
            yield given[0], home
        if called == "zip" and index < len(given):
            yield given[index], home


def _element(
    program: Program, value: ast.expr, index: int
) -> Iterator[tuple[ast.expr, Scope]]:
    """One of the values that a function in sight returns together."""
    if not isinstance(value, ast.Call):
        return
    scope = program.module.scope_of(value)
    for one, home in values_returned(program, value, scope):
        if isinstance(one, ast.Tuple) and index < len(one.elts):
            yield one.elts[index], home


def values_returned(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What the function, or the model's `forward`, in sight gives back."""
    functions = list(program.values.callees(call, scope))
    value = program.values.of(call.func, scope)
    if not functions and value.cls is not None:
        own = program.graph.method(value.cls, "forward")
        functions = [own] if own is not None else []
    for function in functions:
        if function.name != "__init__":
            home = program.scope(function)
            yield from ((one, home) for one in returned(function))
