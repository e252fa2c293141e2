"""Products that are taken apart again: what `torch.linalg.cholesky(h @ h.T + jitter)` gets must be
positive, and float16 rounds that away before any cast can help. And products with what a solver
gave, `y.T @ torch.cholesky_solve(y, l)`, which cancel, or pass float16's range.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.divisors import factors
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.products import behind
from amp_migrate.model.half_safety.second_moments import factors as multiplied
from amp_migrate.model.half_safety.second_moments import kept_apart, origins
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops.roles import SOLVERS

_DEEP = 6


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The products in half precision that a decomposition or a solver gets, or gives to."""
    yield from _of_solved(asked, node, scope)
    if not isinstance(node, ast.Call):
        return
    found = spelled(asked.inference, node, scope)
    if found is None or found.op not in ops.linalg.ROWS:
        return
    what = f"`{ast.unparse(node.func)}` takes this product apart"
    for one in operands(found, node):
        for last, home in behind(asked, one, scope):
            for product in _chain(last):
                given = _factors(asked, product, home)
                yield from kept_apart(asked, product, given, home, what)


def _of_solved(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """`y.T @ solved`"""
    sides = multiplied(asked, node, scope)
    if len(sides) != 2 or not isinstance(node, ast.expr):
        return
    for side in sides:
        for one, home in origins(asked, side, scope, _DEEP):
            found = (
                spelled(asked.inference, one, home)
                if isinstance(one, ast.Call)
                else None
            )
            if found is not None and found.op.name in SOLVERS:
                what = f"`{ast.unparse(side)}` is what a system of equations is solved by"
                yield from kept_apart(asked, node, sides, scope, what)
                return


def _chain(last: ast.expr) -> list[ast.expr]:
    """`h @ p @ h.T`, and the `h @ p` in it."""
    if not isinstance(last, ast.BinOp) or not isinstance(last.op, ast.MatMult):
        return [last] if isinstance(last, ast.Call) else []
    inner = (
        one for one in (last.left, last.right) if isinstance(one, ast.BinOp)
    )
    return [last, *(one for side in inner for one in _chain(side))]


def _factors(asked: Asked, product: ast.expr, scope: Scope) -> list[ast.expr]:
    """What is multiplied, but for what is a product itself, and no longer in half."""
    if isinstance(product, ast.BinOp):
        sides = (product.left, product.right)
        return [
            one for one in sides if not _chain(one) or isinstance(one, ast.Call)
        ]
    return factors(asked, product, scope)
