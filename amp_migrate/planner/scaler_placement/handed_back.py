"""Bindings that make no optimizer: `self.model, self.optimizer = load(self.model, self.optimizer)`
of a function, in any file, that gives back what it is given.
"""

from __future__ import annotations

import ast

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
    returned_at,
)
from amp_migrate.model.syntax.queries import nodes_in


def makes_it(program: Program, binding: Binding, name: str) -> bool:
    """Whether a binding gives a variable, or an attribute of the object, more than it held."""
    call = binding.value
    if not isinstance(call, ast.Call) or binding.how != "assign":
        return True
    scope = program.module.scope_of(call)
    found = _called(program, call, scope)
    return found is None or not _gives_back(
        *found, binding, call, _as_written(name, scope)
    )


def made_before(program: Program, bindings: set[Binding], name: str) -> None:
    """Add to bindings of a variable that make nothing what they are given:
    `opt = decay(opt)`.
    """
    wanted = list(bindings)
    while wanted:
        one = wanted.pop()
        if makes_it(program, one, name):
            continue
        before = _given(program, one, name)
        wanted += before - bindings
        bindings |= before


def _given(program: Program, binding: Binding, name: str) -> set[Binding]:
    """What a variable may hold where a binding reads it."""
    assert binding.value is not None
    found: set[Binding] = set()
    for node in nodes_in(binding.value):
        if not isinstance(node, ast.Name):
            continue
        if node.id == name:
            reach = program.reaching.at(node, name)
            found.update(reach.bindings)
    return found


def _as_written(name: str, scope: Scope) -> str:
    head, _, rest = name.partition(".")
    if head != "self" or not rest or scope.self_name is None:
        return name
    return f"{scope.self_name}.{rest}"


def _called(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Program, Function] | None:
    function = program.values.callee(call, scope)
    if function is not None:
        return program, function
    there = program.values.abroad(call.func, scope)
    if there is None or not isinstance(there[1], FUNCTIONS):
        return None
    return there[0], there[1]


def _gives_back(
    home: Program,
    function: Function,
    binding: Binding,
    call: ast.Call,
    name: str,
) -> bool:
    inner = home.scope(function)
    results = (
        returned(function)
        if binding.index is None
        else returned_at(function, binding.index)
    )
    is_whole = len(results) == len(returned(function)) > 0
    return is_whole and all(
        isinstance(one, ast.Name)
        and [b.how for b in inner.bindings.get(one.id, ())] == ["parameter"]
        and _is_given(call, inner, one.id, name)
        for one in results
    )


def _is_given(call: ast.Call, inner: Scope, parameter: str, name: str) -> bool:
    given = argument(call, inner, parameter, inner.takes_receiver)
    return given is not None and dotted_name(given) == name
