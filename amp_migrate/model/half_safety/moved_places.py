"""What places are made of: the products of matrices behind a grid, behind points that are seen by a
camera. Whatever moves them must be as exact as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.given_values import (
    values_of,
    values_returned,
)
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.products import product_factors
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import given_to, operands, spelled
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops import Spelling

_MOST = 300
"""How many expressions are followed behind one."""
_PASSED = ops.pointwise.MOVES | {row.name for row in ops.shapes.ROWS}
"""What gives places of places."""


def sampled_at(found: Spelling, call: ast.Call) -> list[ast.expr]:
    """The grid of `F.grid_sample(picture, grid)`."""
    named = [one.value for one in call.keywords if one.arg == "grid"]
    return [*named, *given_to(found, call)[1:2]]


def products_behind(
    asked: Asked, places: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, list[ast.expr], Scope]]:
    """The products of matrices among what places are made of."""
    for one, home in made_of(asked, places, scope):
        given = product_factors(asked, one, home)
        if given:
            yield one, given, home


def made_of(
    asked: Asked, places: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What places come from, by arithmetic, views and products, through functions in sight and
    entries of dictionaries.
    """
    waiting, seen = [(places, scope)], {places}
    while waiting and len(seen) < _MOST:
        one, home = waiting.pop()
        yield one, home
        given = product_factors(asked, one, home)
        inner = [(side, home) for side in given]
        inner = inner or list(_behind(asked, one, home))
        waiting += [held for held in inner if held[0] not in seen]
        seen.update(held for held, _ in inner)


def _behind(
    asked: Asked, expr: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What an expression has its places from."""
    if isinstance(expr, ast.Call):
        yield from _called(asked, expr, scope)
        return
    key = _key(expr)
    if key is not None:
        program = asked.inference.program
        known = program.remembered("under keys", lambda: _under_keys(program))
        yield from known.get(key, ())
        return
    dotted = dotted_name(expr)
    bindings = (
        asked.inference.program.reaching.at(expr, dotted).bindings
        if dotted is not None
        else ()
    )
    for one in bindings:
        yield from values_of(asked.inference, one)
    if isinstance(expr, (ast.ListComp, ast.GeneratorExp)):
        yield expr.elt, asked.inference.program.module.scope_of(expr.elt)
    elif not bindings:
        yield from ((one, scope) for one in _parts(expr))


def _called(
    asked: Asked, call: ast.Call, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What a call has them from: an operator of torch, or a function or model in sight."""
    found = spelled(asked.inference, call, scope)
    if found is None:
        program = asked.inference.program
        yield from values_returned(program, call, scope)
    elif found.op.name in _PASSED:
        yield from ((one, scope) for one in operands(found, call))
    elif found.op.result in ("cast", "float32"):
        yield from ((one, scope) for one in given_to(found, call)[:1])


def _parts(expr: ast.expr) -> list[ast.expr]:
    """What an expression shows them of."""
    if isinstance(expr, ast.BinOp):
        return [expr.left, expr.right]
    if isinstance(expr, ast.IfExp):
        return [expr.body, expr.orelse]
    if isinstance(expr, ast.UnaryOp):
        return [expr.operand]
    if isinstance(expr, (ast.Subscript, ast.Attribute, ast.Starred)):
        return [expr.value]
    return expr.elts if isinstance(expr, (ast.Tuple, ast.List)) else []


def _key(expr: ast.expr) -> str | None:
    """`pose` of `outputs["pose"]`, of `outputs["pose", 0, scale]`."""
    if not isinstance(expr, ast.Subscript):
        return None
    first = expr.slice
    if isinstance(first, ast.Tuple) and first.elts:
        first = first.elts[0]
    is_text = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return ast.literal_eval(first) if is_text else None


def _under_keys(program: Program) -> dict[str, list[tuple[ast.expr, Scope]]]:
    """What is stored under each key, in whichever dictionary."""
    found: dict[str, list[tuple[ast.expr, Scope]]] = {}
    for node in program.module.parents:
        if not isinstance(node, ast.Assign):
            continue
        for key in filter(None, map(_key, node.targets)):
            value = (node.value, program.module.scope_of(node))
            found.setdefault(key, []).append(value)
    return found
