"""What names a dtype in other files of the project: their variables, functions and properties."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.methods_elsewhere import method_elsewhere
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.variables import imported_variable
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, returned

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
Part = tuple["Program", ast.expr, Scope]


def given_abroad(
    program: Program, expr: ast.expr, scope: Scope
) -> list[Part] | None:
    """The expressions behind `DTYPE`, `DTYPES[key]`, `dtype_of(args)` and `config.dtype`, where all
    of them stand in sight.
    """
    if isinstance(expr, ast.Subscript):
        return _entries(given_abroad(program, expr.value, scope))
    if isinstance(expr, ast.Call):
        found = method_elsewhere(program, expr, scope)
        if found is not None:
            return _returned(*found)
        is_get = (
            isinstance(expr.func, ast.Attribute) and expr.func.attr == "get"
        )
        if not is_get or not expr.args:
            return None
        assert isinstance(expr.func, ast.Attribute)
        table = _entries(given_abroad(program, expr.func.value, scope))
        rest = [(program, one, scope) for one in expr.args[1:]]
        return [*table, *rest] if table else None
    return _variable(program, expr, scope) or _property(program, expr, scope)


def _entries(tables: list[Part] | None) -> list[Part] | None:
    """What tables hold."""
    found: list[Part] = []
    for home, table, where in tables or ():
        if not isinstance(table, ast.Dict):
            return None
        found += [(home, value, where) for value in table.values]
    return found or None


def _returned(
    home: Program,
    function: Function,
) -> list[Part] | None:
    where = home.scope(function)
    return [(home, value, where) for value in returned(function)] or None


def _variable(
    program: Program, expr: ast.expr, scope: Scope
) -> list[Part] | None:
    variable = imported_variable(program, dotted_name(expr) or "", scope)
    if variable is None:
        return None
    home, bindings = variable
    if any(one.how != "assign" or one.value is None for one in bindings):
        return None
    return [
        (home, one.value, home.module.scope_of(one.value))
        for one in bindings
        if one.value is not None
    ] or None


def _property(
    program: Program, expr: ast.expr, scope: Scope
) -> list[Part] | None:
    """What a property gives, of an object whose class is known."""
    if not isinstance(expr, ast.Attribute):
        return None
    value = program.values.of(expr.value, scope)
    home, cls = value.foreign or (program, value.cls)
    method = home.graph.method(cls, expr.attr) if cls is not None else None
    is_one = isinstance(method, FUNCTIONS) and any(
        (dotted_name(one) or "").endswith("property")
        for one in method.decorator_list
    )
    if method is None or value.mixed or not is_one:
        return None
    return _returned(home, method)
