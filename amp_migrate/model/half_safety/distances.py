"""Squared distances by their expansion, `|a|^2 + |b|^2 - 2 a.b`: large numbers that nearly cancel,
of which half precision leaves nothing where points are close.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard, is_double
from amp_migrate.model.half_safety.squared_lengths import (
    on_diagonals,
    root_name,
    shown_of,
)
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts.ops.roles import LENGTHS, PLUS_PRODUCTS, SQUARES


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """Products of two tensors whose squares are summed up in the same function."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield from _of_product(asked, node, [node.left, node.right], scope)
    elif isinstance(node, ast.Call):
        found = spelled(asked.inference, node, scope)
        if (
            found is not None
            and found.policy == "lower"
            and found.form != "in-place"
        ):
            given = operands(found, node)
            factors = given[found.op.name in PLUS_PRODUCTS :]
            yield from _of_product(asked, node, factors, scope)


def _of_product(
    asked: Asked, node: ast.expr, given: list[ast.expr], scope: Scope
) -> Iterator[Hazard]:
    squares = dict(_summed_squares(asked, scope))
    squared_there = squares.keys() | set(on_diagonals(asked, scope))
    shown = [squared_there & shown_of(asked, one) for one in given]
    if len(given) != 2 or not all(shown) or is_double(asked, given, scope):
        return
    names = {name for found in shown for name in found}
    for square in {squares[name] for name in names & squares.keys()}:
        yield from _rounded(asked, square, scope)
    casts = tuple(one for one in given if asked.needs_cast(one, scope))
    message = (
        f"`{ast.unparse(node)}` is part of a squared distance, whose terms nearly cancel: in half "
        "precision close points are no longer told apart"
    )
    if casts or asked.inference.inside(node):
        yield Hazard("loses-precision", node, casts, message)


def _rounded(asked: Asked, square: ast.expr, scope: Scope) -> Iterator[Hazard]:
    """`x * x`, which is half before it is summed up in float32, as a power is not."""
    if isinstance(square, ast.BinOp) and isinstance(square.op, ast.Mult):
        sides = (square.left, square.right)
        casts = tuple(one for one in sides if asked.needs_cast(one, scope))
        message = f"`{ast.unparse(square)}` is part of a squared distance"
        if casts:
            yield Hazard("loses-precision", square, casts, message)


def _summed_squares(
    asked: Asked, scope: Scope
) -> Iterator[tuple[str, ast.expr]]:
    """The names of which `(x**2).sum(-1)` or the like stands in the function, with the square."""
    for call in scope.calls:
        found = spelled(asked.inference, call, scope)
        if found is None or found.op.name != "sum":
            yield from _squared_length(asked, call, scope)
            continue
        for one in operands(found, call)[:1]:
            square = squared(asked, one, scope)
            name = root_name(square) if square is not None else None
            if name is not None:
                yield name, one


def _squared_length(
    asked: Asked, call: ast.Call, scope: Scope
) -> Iterator[tuple[str, ast.expr]]:
    """`x.norm(dim=1) ** 2`, which is the same sum."""
    found = spelled(asked.inference, call, scope)
    if found is None or found.op.name not in LENGTHS:
        return
    above = asked.inference.program.module.parents.get(call)
    around = (
        asked.inference.program.module.parents.get(above) if above else None
    )
    wholes = (above, around) if isinstance(above, ast.Attribute) else (above,)
    names = [root_name(one) for one in operands(found, call)[:1]]
    for whole in wholes:
        if isinstance(whole, ast.expr) and squared(asked, whole, scope) is call:
            yield from ((name, call) for name in names if name is not None)


def squared(asked: Asked, expr: ast.expr, scope: Scope) -> ast.expr | None:
    """What `x ** 2`, `x * x`, `x.pow(2)` and `torch.square(x)` square."""
    if isinstance(expr, ast.BinOp):
        if isinstance(expr.op, ast.Pow) and number(expr.right, scope) == 2:
            return expr.left
        is_same = ast.unparse(expr.left) == ast.unparse(expr.right)
        return expr.left if isinstance(expr.op, ast.Mult) and is_same else None
    if not isinstance(expr, ast.Call):
        return None
    found = spelled(asked.inference, expr, scope)
    if found is None or found.op.name not in SQUARES:
        return None
    given = [one for one in nodes_in(expr) if isinstance(one, ast.Constant)]
    is_square = found.op.name == "square" or any(
        one.value == 2 for one in given
    )
    return operands(found, expr)[0] if is_square else None
