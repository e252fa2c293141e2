"""Which expressions are what switches AMP, and nothing that stands for a number or a type."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._plans import AMP_NAMES
from amp_migrate.model.autocast.dtype_choices import dtype_choices
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.uses import argument_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.literals import is_flag
from amp_migrate.torch_facts.amp_api import API

_PLACES = {
    row.name: row.parameters.index("enabled")
    for row in API
    if "enabled" in row.parameters
}


def is_switch(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether `expr` is a truth value, or the variable that switches a scaler or a region
    elsewhere: `enabled=args.amp`.
    """
    return is_flag(program, expr, scope) or _switches(program, expr, scope)


def _switches(
    program: Program,
    expr: ast.expr,
    scope: Scope,
) -> bool:
    name = dotted_name(expr)
    if name is None or dtype_choices(program, expr, scope) is not None:
        return False
    home = _home(program, name, scope)
    return home is not None and any(
        dotted_name(given) == name and _home(program, name, where) is home
        for given, where in _enabled(program)
    )


def _enabled(program: Program) -> Iterator[tuple[ast.expr, Scope]]:
    """What is given for `enabled`, by name or in its place."""
    for call, where in program.uses.calls(*AMP_NAMES):
        place = _PLACES.get(program.canonical(call.func) or "")
        if place is not None:
            given = argument_of(call, place, "enabled")
            if given is not None:
                yield given, where


def _home(
    program: Program,
    name: str,
    scope: Scope,
) -> object:
    """What a variable, or an attribute of the object, belongs to."""
    head, _, rest = name.partition(".")
    if rest and head == scope.self_name:
        return program.graph.class_around(scope)
    return scope.lookup(head)
