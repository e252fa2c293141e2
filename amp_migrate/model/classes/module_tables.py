"""What stands in the modules that a table holds: `METHODS[name].config.get_model(settings)`, where
`METHODS = {"onet": onet, "pointnet": pointnet}` holds modules of the project.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.dataflow.sources import Part, held, put_into
from amp_migrate.model.naming.import_calls import imported_module

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Definition
    from amp_migrate.model.program import Program
    from amp_migrate.model.syntax.module import Scope

_HOPS = 4
_LEAD_TO_TABLES = (ast.Name, ast.Subscript, ast.Call)


def of_module_tables(
    program: Program, func: ast.Attribute, scope: Scope
) -> Iterator[Definition]:
    """The definitions that a part of one of such modules may be."""
    path = ""
    base: ast.expr = func
    while isinstance(base, ast.Attribute):
        path = f".{base.attr}{path}"
        base = base.value
    items = _items((program, base, scope), _HOPS)
    for home, module, _ in dict.fromkeys(items):
        near = home.module.scope_of(module).module.neighbours
        name = _name_of(home, module)
        if near is None or name is None:
            continue
        found = near.find(f"{name}{path}")
        if found is not None:
            yield found


def _name_of(program: Program, module: ast.expr) -> str | None:
    """The dotted name of a module, if an entry of a table is one."""
    if isinstance(module, ast.Call):
        return imported_module(module)
    return program.canonical(module)


def _items(base: Part, hops: int) -> Iterator[Part]:
    """What `METHODS[name]`, `METHODS.get(name)` or a variable that holds it may be."""
    program, expr, scope = base
    if not hops:
        return
    if isinstance(expr, ast.Name):
        for one in held(program, expr, scope):
            if isinstance(one[1], _LEAD_TO_TABLES):
                yield from _items(one, hops - 1)
    table = _table_of(expr)
    if table is not None:
        yield from _entries((program, table, scope), hops)


def _table_of(item: ast.expr) -> ast.expr | None:
    """`METHODS` of `METHODS[name]` and of `METHODS.get(name)`."""
    if isinstance(item, ast.Subscript):
        return item.value
    func = item.func if isinstance(item, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr == "get":
        return func.value
    return None


def _entries(table: Part, hops: int) -> Iterator[Part]:
    """What a table holds, as written out and as put into it."""
    program, expr, scope = table
    if not hops:
        return
    if isinstance(expr, ast.Dict):
        for one in expr.values:
            yield program, one, scope
    elif isinstance(expr, (ast.List, ast.Tuple)):
        for one in expr.elts:
            yield program, one, scope
    elif isinstance(expr, (ast.Name, ast.Attribute)):
        yield from put_into(program, expr, scope)
        for before in held(program, expr, scope):
            yield from _entries(before, hops - 1)
