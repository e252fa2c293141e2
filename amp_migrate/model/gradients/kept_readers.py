"""Clippers and norms that are called by another name: a partial, an attribute, one of a table, the
function that a caller gives.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.partials import bound_call
from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.gradients.readers import named_reader
from amp_migrate.model.steps.events import EventKind

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.syntax.module import Scope

_HOPS = 4


def kept_reader(
    program: Program, func: ast.expr, scope: Scope
) -> EventKind | None:
    """What a call of a variable does with gradients: a bound counts before a norm."""
    if not program.remembered(kept_reader, lambda: _is_named(program)):
        return None
    if program.canonical(func) is not None:
        return None
    kinds = set(_kinds(program, func, scope, _HOPS))
    if EventKind.CLIP in kinds:
        return EventKind.CLIP
    return EventKind.READ if kinds == {EventKind.READ} else None


def _is_named(program: Program) -> bool:
    """Whether the program names a clipper or a norm other than to call it."""
    parents = program.module.parents
    return any(
        isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node.ctx, ast.Load)
        and not (
            isinstance(above := parents[node], ast.Call) and above.func is node
        )
        and _kind(program, node) is not None
        for node in parents
    )


def _kind(program: Program, expr: ast.expr) -> EventKind | None:
    """What a function of a library does with gradients, by its own name."""
    return named_reader(program.canonical(expr), "")


def _kinds(
    program: Program, expr: ast.expr, scope: Scope, hops: int
) -> Iterator[EventKind | None]:
    """What each function does that an expression may be."""
    if isinstance(expr, ast.IfExp):
        yield from _kinds(program, expr.body, scope, hops)
        yield from _kinds(program, expr.orelse, scope, hops)
        return
    bound = bound_call(program.module, expr)
    if bound is not None:
        yield from _kinds(program, bound.func, scope, hops)
        return
    if isinstance(expr, ast.Subscript):
        for home, value, where in held(program, expr.value, scope):
            if isinstance(value, ast.Dict):
                for one in value.values:
                    yield from _kinds(home, one, where, hops - 1)
        return
    kind = _kind(program, expr)
    if kind is not None or not isinstance(expr, (ast.Name, ast.Attribute)):
        yield kind
        return
    for home, value, where in held(program, expr, scope) if hops else ():
        yield from _kinds(home, value, where, hops - 1)
