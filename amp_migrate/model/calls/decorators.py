"""What a decorator puts in the place of a function."""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, returned
from amp_migrate.model.syntax.queries import nodes_in


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


def only_wraps(program: Program, mark: ast.expr) -> bool:
    """Whether a decorator in sight does nothing with its function but call it in the function that
    it hands back, with all that this one is given by name.
    """
    maker = mark.func if isinstance(mark, ast.Call) else mark
    scope = program.module.scope_of(mark)
    home, decorator = program, program.graph.function_at(maker, scope)
    found = program.values.abroad(maker, scope)
    if decorator is None and found is not None:
        home, definition = found
        if not isinstance(definition, ast.ClassDef):
            decorator = definition
    if decorator is not None and isinstance(mark, ast.Call):
        inner = _handed_back(home, decorator)
        decorator = inner[0] if len(inner) == 1 else None
    return decorator is not None and _only_wraps(home, decorator)


def _only_wraps(program: Program, decorator: Function) -> bool:
    inner = _handed_back(program, decorator)
    given = decorator.args.args
    if len(given) != 1 or len(inner) != 1 or len(returned(decorator)) != 1:
        return False
    passed, wrapper = inner[0].args.kwarg, inner[0]
    if passed is None:
        return False
    uses = [one for one in nodes_in(decorator) if _names(one, given[0].arg)]
    calls = [program.module.parents[one] for one in uses]
    run = [one for one in calls if isinstance(one, ast.Call)]
    return bool(run) and all(
        _is_named(program, one)
        or isinstance(above, ast.Call)
        and above.func is one
        and program.module.scope_of(one).node is wrapper
        and any(_is_passed_on(word, passed.arg) for word in above.keywords)
        for one, above in zip(uses, calls, strict=True)
    )


def _names(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_passed_on(word: ast.keyword, name: str) -> bool:
    """`**kwargs`"""
    return word.arg is None and _names(word.value, name)


def _is_named(program: Program, node: ast.AST) -> bool:
    """`@functools.wraps(function)`, `function.__name__`"""
    above = program.module.parents[node]
    if isinstance(above, ast.Attribute):
        return above.attr.startswith("__")
    return (
        isinstance(above, ast.Call)
        and program.canonical(above.func) == "functools.wraps"
    )


def _handed_back(program: Program, maker: Function) -> list[Function]:
    """The functions inside of one that it returns."""
    scope = program.scope(maker)
    named = [one for one in returned(maker) if isinstance(one, ast.Name)]
    inner = [program.graph.function_at(one, scope) for one in named]
    return [
        one
        for one in inner
        if one is not None and program.scope(one).parent is scope
    ]


def _strict(program: Program, maker: Function, hops: int) -> Function | None:
    """The same of what a function returns; `@every(3)` returns the decorator first, and one that
    returns what it was given puts nothing in its place.
    """
    nested = _handed_back(program, maker)
    if hops:
        found = (_strict(program, one, hops - 1) for one in nested)
        return next((one for one in found if one is not None), None)
    return next((one for one in nested if one.args.kwarg is None), None)
