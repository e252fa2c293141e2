"""Which custom functions of autograd a call applies, by whatever name it has their `apply`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.calls.partials import bound_call
from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.half_safety.autograd_functions import Custom, functions

_Class: TypeAlias = tuple[Program, ast.ClassDef]
_DEEP = 4


def applied(program: Program, call: ast.Call, scope: Scope) -> list[Custom]:
    """The custom functions that a call may run: `Cls.apply(...)`, what a variable, an attribute or
    a default keeps of it; one of the old style by `Cls(...)(...)`.
    """
    found = dict.fromkeys(_classes(program, call.func, scope, _DEEP))
    return [
        one for home, cls in found for one in functions(home) if one.node is cls
    ]


def _classes(
    program: Program, func: ast.expr, scope: Scope, deep: int
) -> Iterator[_Class]:
    if isinstance(func, ast.Call):
        yield from _some(class_named(program, func.func, scope))
    elif isinstance(func, ast.Attribute) and func.attr == "apply":
        yield from _some(class_named(program, func.value, scope))
    elif isinstance(func, (ast.Name, ast.Attribute)) and deep:
        yield from _kept(program, func, scope, deep)


def _kept(
    program: Program, name: ast.expr, scope: Scope, deep: int
) -> Iterator[_Class]:
    """`warp = Warp.apply`, `self.warp = partial(Warp.apply, scale)`, `def __init__(self,
    fn=Warp.apply)`.
    """
    for home, value, where in held(program, name, scope):
        bound = bound_call(home.module, value)
        if bound is not None:
            yield from _classes(home, bound.func, where, deep - 1)
        elif not isinstance(value, ast.Call):
            yield from _classes(home, value, where, deep - 1)


def _some(found: _Class | None) -> list[_Class]:
    return [] if found is None else [found]


def class_named(
    program: Program, expr: ast.expr, scope: Scope
) -> _Class | None:
    """The class that an expression names, in this program or in another file."""
    own = program.graph.class_named(expr, scope)
    if own is not None:
        return program, own
    abroad = program.values.abroad(expr, scope)
    if abroad is None or not isinstance(abroad[1], ast.ClassDef):
        return None
    return abroad[0], abroad[1]
