"""What is taken out of a table by a name that a call gives, or the command line unless somebody
says another: `LOSSES[name](**options)`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.dataflow.sources import Part, put_into
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.settings.command_line import option_of
from amp_migrate.model.syntax.module import FUNCTIONS, Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def picked(part: Part, call: Part | None = None) -> Part | None:
    """The entry that a look-up takes; `call` is the one of the function that looks it up, by a
    parameter.
    """
    home, expr, scope = part
    found = _lookup(expr)
    if found is None:
        return None
    table, key = found
    name = _text(home, key, scope) or _given(key, scope, call)
    return _entry(home, table, scope, name) if name is not None else None


def _lookup(expr: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The table and the key of `TABLE[key]`, `TABLE.get(key)`, and of a call of either."""
    if isinstance(expr, ast.Subscript):
        return expr.value, expr.slice
    func = expr.func if isinstance(expr, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr == "get":
        assert isinstance(expr, ast.Call)
        return (func.value, expr.args[0]) if expr.args else None
    return _lookup(func) if func is not None else None


def _text(program: Program, key: ast.expr, scope: Scope) -> str | None:
    """A key as it is written, or as the command line gives it where nobody asks for another."""
    if isinstance(key, ast.Constant):
        return key.value if isinstance(key.value, str) else None
    dotted = dotted_name(key)
    option = option_of(program, key, dotted) if dotted is not None else None
    for one in option.keywords if option is not None else ():
        if one.arg == "default" and isinstance(one.value, ast.Constant):
            return _text(program, one.value, scope)
    return None


def _given(key: ast.expr, inner: Scope, call: Part | None) -> str | None:
    """What a call gives for the parameter that is the key."""
    function = inner.node
    if call is None or not isinstance(key, ast.Name):
        return None
    program, made, scope = call
    if not isinstance(made, ast.Call) or not isinstance(function, FUNCTIONS):
        return None
    if [one.how for one in inner.bindings.get(key.id, ())] != ["parameter"]:
        return None
    given = argument(made, inner, key.id, inner.takes_receiver)
    if given is None:
        given = default_of(function, key.id)
    return _text(program, given, scope) if given is not None else None


def _entry(
    home: Program, table: ast.expr, scope: Scope, name: str
) -> Part | None:
    """What a table that is written once has under a key."""
    dotted = dotted_name(table)
    if dotted is None or any(put_into(home, table, scope)):
        return None
    where = scope.lookup(dotted)
    bindings = (
        where.bindings.get(dotted, ())
        if where is not None
        else home.reaching.at(table, dotted).bindings
    )
    display = bindings[0].value if len(bindings) == 1 else None
    if not isinstance(display, ast.Dict):
        return None
    found = [
        value
        for key, value in zip(display.keys, display.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == name
    ]
    inner = home.module.scope_of(display)
    return (home, found[-1], inner) if found else None
