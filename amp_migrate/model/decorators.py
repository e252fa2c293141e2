"""What a decorator puts in the place of a function."""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Function, returned


def strict_wrapper(program: Program, mark: ast.expr) -> Function | None:
    """The function that a decorator in sight hands back and that takes no further arguments: calls
    of the decorated function are calls of it.
    """
    maker = mark.func if isinstance(mark, ast.Call) else mark
    hops = 1 if isinstance(mark, ast.Call) else 0
    scope = program.module.scope_of(mark)
    decorator = program.graph.function_at(maker, scope)
    if decorator is not None:
        return _strict(program, decorator, hops)
    found = program.values.abroad(maker, scope)
    if found is None or isinstance(found[1], ast.ClassDef):
        return None
    return _strict(found[0], found[1], hops)


def _strict(program: Program, maker: Function, hops: int) -> Function | None:
    """The same of what a function returns; `@every(3)` returns the decorator first, and one that
    returns what it was given puts nothing in its place.
    """
    scope = program.scope(maker)
    named = [one for one in returned(maker) if isinstance(one, ast.Name)]
    inner = [program.graph.function_at(one, scope) for one in named]
    nested = [
        one
        for one in inner
        if one is not None and program.scope(one).parent is scope
    ]
    if hops:
        found = (_strict(program, one, hops - 1) for one in nested)
        return next((one for one in found if one is not None), None)
    return next((one for one in nested if one.args.kwarg is None), None)
