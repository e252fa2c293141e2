"""Entries of dictionaries that models of other files give: `net(x)["pred"]`, or by a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope, returned
from amp_migrate.model.tensors import dictionaries
from amp_migrate.model.tensors.fact import DType, Fact, join

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference


def entry_elsewhere(
    inference: Inference, expr: ast.Subscript, key: str
) -> Fact | None:
    """What a region makes of an entry; None where no model of another file gives it."""
    found = [
        fact
        for call, scope in _calls(inference.program, expr.value)
        for fact in _given(inference, call, scope, key)
    ]
    if not found:
        return None
    fact = join(found)
    return fact._replace(dtypes=fact.dtypes | DType.UNKNOWN, bounds=None)


def _calls(
    program: Program, expr: ast.expr
) -> Iterator[tuple[ast.Call, Scope]]:
    """The calls that give a dictionary."""
    made: list[ast.expr | None] = [expr]
    if isinstance(expr, ast.Name):
        bindings = program.reaching.at(expr, expr.id).bindings
        plain = [one for one in bindings if one.how == "assign"]
        made = [one.value for one in plain if one.index is None]
    for one in made:
        if isinstance(one, ast.Call) and one in program.module.parents:
            yield one, program.module.scope_of(one)


def _given(
    inference: Inference, call: ast.Call, scope: Scope, key: str
) -> Iterator[Fact]:
    value = inference.program.values.of(call.func, scope)
    region = inference.where(call)
    if value.foreign is None or region is None:
        return
    home, cls = value.foreign
    forward = home.graph.method(cls, "forward")
    there = inference.abroad(home, region)
    for given in returned(forward) if forward is not None else ():
        for one in _held(home, given, key):
            yield there.of(one, home.module.scope_of(one))


def _held(home: Program, given: ast.expr, key: str) -> Iterator[ast.expr]:
    """What its displays hold under a key, and what is stored there by the body that makes it."""
    for display in dictionaries.displays(home, given):
        held = dictionaries.under(home, display, key)
        if held is not None:
            yield held
    name = dotted_name(given)
    if name is not None:
        stored = home.module.scope_of(given).stored.get(name, ())
        yield from (
            one.value
            for one in stored
            if isinstance(one.key, ast.Constant) and one.key.value == key
        )
