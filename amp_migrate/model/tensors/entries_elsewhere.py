"""Entries of dictionaries that models of other files give: `net(x)["pred"]`, or by a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Function, Scope, returned
from amp_migrate.model.tensors import dictionaries
from amp_migrate.model.tensors.fact import DType, Fact, join
from amp_migrate.model.tensors.modules import classes

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference

_HOPS = 3
"""How many models may hand on what another gives."""


def entry_elsewhere(
    inference: Inference, expr: ast.Subscript, key: str
) -> Fact | None:
    """What a region makes of an entry; None where no model of another file gives it."""
    found = [
        fact
        for call, scope in _calls(inference.program, expr.value)
        for fact in _given(inference, call, scope, key, _HOPS)
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
    inference: Inference, call: ast.Call, scope: Scope, key: str, hops: int
) -> Iterator[Fact]:
    program, region = inference.program, inference.where(call)
    if region is None or not hops:
        return
    for home, forward in _forwards(inference, call, scope):
        there = inference if home is program else inference.abroad(home, region)
        for given in returned(forward):
            for one in _held(home, given, key):
                yield there.of(one, home.module.scope_of(one))
            for inner in _calls(home, given):
                yield from _given(there, *inner, key, hops - 1)


def _forwards(
    inference: Inference, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, Function]]:
    """The forwards that a call may run of models here and in other files."""
    program = inference.program
    value = program.values.of(call.func, scope)
    for one in (value, *(classes(inference, value) if value.mixed else ())):
        own = (program, one.cls) if one.cls is not None else None
        home, cls = one.foreign or own or (None, None)
        forward = home.graph.method(cls, "forward") if home and cls else None
        if home is not None and forward is not None:
            yield home, forward


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
