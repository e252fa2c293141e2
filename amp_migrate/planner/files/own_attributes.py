"""Attributes of an object that a method of its own sets or reads, through the methods it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, shallow


def own_attributes(
    function: Function, program: Program, how: type
) -> frozenset[str]:
    """The paths behind `self` that a method sets (`how` is `ast.Store`) or reads (`ast.Load`)."""

    def find() -> frozenset[str]:
        return frozenset(_touched(function, program, how, set()))

    return program.remembered((own_attributes, function, how), find)


def _touched(
    function: Function, program: Program, how: type, seen: set[Function]
) -> Iterator[str]:
    if function in seen:
        return
    seen.add(function)
    inner = program.scope(function)
    for node in (n for one in function.body for n in shallow(one)):
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            head, _, rest = (path_of(node) or "").partition(".")
            if isinstance(node.ctx, how) and head == inner.self_name and rest:
                yield rest
        elif isinstance(node, ast.Call) and isinstance(
            node.func, ast.Attribute
        ):
            if dotted_name(node.func.value) == inner.self_name:
                called = program.values.callee(node, inner)
                if called is not None:
                    yield from _touched(called, program, how, seen)


def path_of(expr: ast.expr) -> str | None:
    """The dotted name of an expression, or that of a mapping with a key that is written out:
    `self.log["loss"]`.
    """
    if not isinstance(expr, ast.Subscript):
        return dotted_name(expr)
    holder, key = dotted_name(expr.value), expr.slice
    if holder is None or not isinstance(key, ast.Constant):
        return None
    return f"{holder}[{key.value!r}]" if isinstance(key.value, str) else None
