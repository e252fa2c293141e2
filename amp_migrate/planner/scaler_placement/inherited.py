"""Scalers that a base class's constructor has made already when an heir's would make its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.planner.scaler_placement.homes import Home

Homes = Mapping[Home, list[ast.stmt]]


def without_inherited(program: Program, homes: Homes) -> Iterator[Home]:
    """The scalers that are to be made: an object has one."""
    for home, anchors in homes.items():
        base = _base_init(program, home, anchors)
        made = False
        # A base's own may be its base's: it is there all the same.
        for other in homes:
            if other.scope.node is base:
                made |= _is_sure(other, homes[other])
        if not made:
            yield home


def _is_sure(home: Home, anchors: list[ast.stmt]) -> bool:
    """Whether what sets the scaler of an object makes it whatever else it does."""
    body = home.scope.body
    return home.attribute is not None and any(
        anchor in body for anchor in anchors
    )


def _base_init(
    program: Program, home: Home, anchors: list[ast.stmt]
) -> Function | None:
    """The constructor of a base class that one of an heir runs before all of some statements."""
    init = home.scope.node
    if home.attribute is None:
        return None
    if not isinstance(init, FUNCTIONS):
        return None
    if init.name != "__init__" or _is_mixed(program, home):
        return None
    first = min(anchor.lineno for anchor in anchors)
    earlier = [statement for statement in init.body if statement.lineno < first]
    for statement in earlier:
        base = _run_by(program, statement, home.scope)
        if base is not None and base.name == "__init__":
            return base
    return None


def _run_by(
    program: Program, statement: ast.stmt, scope: Scope
) -> Function | None:
    """The function that a statement calls, and does nothing else."""
    if not isinstance(statement, ast.Expr):
        return None
    call = statement.value
    if not isinstance(call, ast.Call):
        return None
    return program.values.callee(call, scope)


def _is_mixed(program: Program, home: Home) -> bool:
    """Whether some heir has several bases: another class may then be the next one for `super`."""
    graph = program.graph
    cls = graph.class_around(home.scope)
    if cls is None:
        return False
    family = [cls, *graph.heirs(cls)]
    return any(len(one.bases) > 1 for one in family)
