"""Names that may hold a dtype: `encoder.dtype`, to which `.to` casts as it moves to a device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.classes.bases_abroad import method_of
from amp_migrate.model.classes.given_classes import given_values
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope, returned
from amp_migrate.model.values.call_values import is_property
from amp_migrate.torch_facts.amp_api import COMPLEX, FLOATS, HALVES, INTEGERS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DTYPES = frozenset((*HALVES, *FLOATS, *INTEGERS, *COMPLEX))
_DEEP = 3


def may_be_dtype(
    program: Program, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether an expression is called `dtype`, as that of each tensor is, or may be a dtype by what
    is assigned, what callers in sight pass, or what a property in sight gives.
    """
    if isinstance(expr, (ast.IfExp, ast.BoolOp)):
        return any(
            may_be_dtype(program, one, scope, deep) for one in _arms(expr)
        )
    name = dotted_name(expr)
    if name is None or not deep:
        return False
    if name.rpartition(".")[2] == "dtype" or _names_dtype(program, expr):
        return True
    held = (
        (program, value, where)
        for binding in program.reaching.at(expr, name).bindings
        for value, where in given_values(program, binding, scope)
    )
    return any(
        may_be_dtype(home, value, where, deep - 1)
        for home, value, where in (*held, *_of_property(program, expr, scope))
    )


def _names_dtype(program: Program, expr: ast.expr) -> bool:
    return program.canonical(expr) in _DTYPES


def _arms(expr: ast.IfExp | ast.BoolOp) -> list[ast.expr]:
    if isinstance(expr, ast.BoolOp):
        return expr.values
    return [expr.body, expr.orelse]


def _of_property(
    program: Program, expr: ast.expr, scope: Scope
) -> Iterator[tuple[Program, ast.expr, Scope]]:
    """What a property of a class in sight gives: `model.kind` of `return self.weight.dtype`."""
    if not isinstance(expr, ast.Attribute):
        return
    value = program.values.of(expr.value, scope)
    home, cls = value.foreign or (program, value.cls)
    if dotted_name(expr.value) == scope.self_name:
        home, cls = program, program.graph.class_around(scope)
    found = method_of(home, cls, expr.attr) if cls is not None else None
    if found is not None and is_property(found[1]):
        there, method = found
        inner = there.scope(method)
        yield from ((there, one, inner) for one in returned(method))
