"""Where what is called as a loss comes from: what a name holds, what a factory makes, what a table
has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.handed_through import handed_through, moved
from amp_migrate.model.calls.targets import parts
from amp_migrate.model.dataflow.sources import Part, held, put_into
from amp_migrate.model.dataflow.taken_entries import taken
from amp_migrate.model.forwards.loss_tables import picked
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.one_of_several import (
    all_abroad,
    all_here,
    is_one_of_several,
)
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, returned
from amp_migrate.torch_facts import ops

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

Behind: TypeAlias = (
    "tuple[Program, ast.expr | Function | ast.ClassDef | ast.Lambda]"
)
"""A program, and in it the name of a library's callable, or the definition of one of its own."""


def definitions(part: Part) -> list[Behind]:
    """The classes or functions that a name may be, here or in other files."""
    program, expr, scope = part
    own: list[Behind] = [(program, one) for one in all_here(*part)]
    if own and not is_one_of_several(expr, scope):
        return own
    return [*own, *all_abroad(*part)]


def origins(part: Part) -> Iterator[Part]:
    """The expressions that an expression gets its value from, or what it holds."""
    if dotted_name(part[1]) is not None:
        yield from held(*part)
        yield from put_into(*part)
    else:
        yield from _made(part)


def _made(part: Part) -> Iterator[Part]:
    """The same of what is no name; a factory of another file makes what it returns there, and a
    class in sight an object of its own, whatever it is given.
    """
    program, expr, scope = part
    if isinstance(expr, ast.Call) and _is_class(program, expr.func, scope):
        yield program, expr.func, scope
        return
    if isinstance(expr, ast.Attribute) and ops.method(expr.attr) is not None:
        return  # `criterion(p, y).mean()` is no loss
    entry = picked(part)
    if entry is not None:
        yield entry
        return
    entries = taken(part)
    if entries:
        yield from entries
        return
    if not isinstance(expr, ast.Call):
        yield from _parts(part)
        return
    itself = moved(expr)  # `model = model.to(device)`
    if itself is not None:
        yield program, itself, scope
        return
    factories = _factories(program, expr, scope)
    if not factories:
        yield from _parts(part)
    for home, function in factories:
        inner = home.scope(function)
        for one in returned(function):
            given = handed_through(home, one, expr, inner)
            if given is not None:
                yield program, given, scope
            else:
                yield picked((home, one, inner), part) or (
                    home,
                    one,
                    inner,
                )


def _factories(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[Program, Function]]:
    """The functions of the project that a call runs, those of objects in sight among them."""
    named = definitions((program, call.func, scope))
    if named:
        return [
            (home, one) for home, one in named if isinstance(one, FUNCTIONS)
        ]
    methods = program.values.callees(call, scope)
    return [(program, one) for one in methods if _is_plain(one)]


def _is_plain(method: Function) -> bool:
    """Whether a call of a method gives what it returns: nothing wraps it."""
    return bool(returned(method)) and not method.decorator_list


def _parts(part: Part) -> Iterator[Part]:
    program, expr, scope = part
    for one, where in parts(program, expr, scope):
        yield program, one, where


def _is_class(program: Program, func: ast.expr, scope: Scope) -> bool:
    named = (
        definitions((program, func, scope))
        if dotted_name(func) is not None
        else []
    )
    return any(isinstance(one, ast.ClassDef) for _, one in named)
