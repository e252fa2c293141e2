"""Squared lengths that a function reads off the diagonal of a Gram matrix, `diag(x @ x.T)`, and the
names that an expression shows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.conditions.truth_values import keyword_of
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.origins import method_name, values_of
from amp_migrate.model.half_safety.products import product_factors
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.spelling import given_to, operands, spelled
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops.roles import DIAGONALS

_DEEP = 3
_VIEWS = frozenset(row for row in ops.shapes.ROWS if row.result == "same")


def shown_of(asked: Asked, expr: ast.expr, deep: int = _DEEP) -> set[str]:
    """The names of which an expression is a view: of `y_t` also `y`, where it is its transpose; of
    `2 * y`, too.
    """
    expr = _unscaled(expr, asked.inference.program.module.scope_of(expr))
    name = root_name(expr)
    found = set() if name is None else {name}
    if isinstance(expr, ast.Name) and deep:
        for value, home in values_of(asked, expr):
            if home is asked.inference.program.module.scope_of(expr):
                found |= shown_of(asked, _viewed(asked, value, home), deep - 1)
    return found


def _unscaled(expr: ast.expr, scope: Scope) -> ast.expr:
    """`x` of `-2 * x`, `x / 2`."""
    while True:
        if isinstance(expr, ast.UnaryOp):
            expr = expr.operand
        elif not isinstance(expr, ast.BinOp):
            return expr
        elif number(expr.left, scope) is not None:
            expr = expr.right
        elif number(expr.right, scope) is not None:
            expr = expr.left
        else:
            return expr


def _viewed(asked: Asked, expr: ast.expr, scope: Scope) -> ast.expr:
    """`y` of `torch.transpose(y, 0, 1)`."""
    if not isinstance(expr, ast.Call):
        return expr
    found = spelled(asked.inference, expr, scope)
    given = operands(found, expr) if found is not None else []
    return (
        given[0] if found is not None and found.op in _VIEWS and given else expr
    )


def root_name(expr: ast.expr) -> str | None:
    """`points` of `points.permute(0, 2, 1)`, of `points.t()`, of `points`."""
    while not isinstance(expr, ast.Name):
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            expr = expr.func.value
        elif isinstance(expr, (ast.Attribute, ast.Subscript)):
            expr = expr.value
        else:
            return None
    return expr.id


def on_diagonals(asked: Asked, scope: Scope) -> Iterator[str]:
    """The names whose squared lengths the function reads off the diagonal of `x @ x.T`."""
    program = asked.inference.program
    nodes = program.remembered(
        (on_diagonals, scope), lambda: list(filter(_may_be, _nodes(scope)))
    )
    for node in nodes:
        matrix = _of_diagonal(asked, node, scope)
        if matrix is None:
            continue
        for value, home in [(matrix, scope), *values_of(asked, matrix)]:
            given = product_factors(asked, value, home)
            sides = [shown_of(asked, one) for one in given]
            if len(sides) == 2:
                yield from sides[0] & sides[1]


def _nodes(scope: Scope) -> Iterator[ast.AST]:
    return (node for one in scope.body for node in nodes_in(one))


def _may_be(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        called = dotted_name(node.func) or method_name(node)
        return called.rpartition(".")[2] in ("diag", "diagonal")
    return isinstance(node, ast.Subscript) and _is_doubled(node.slice)


def _is_doubled(index: ast.expr) -> bool:
    """`:, i, i`, `range(n), range(n)`"""
    places = index.elts[-2:] if isinstance(index, ast.Tuple) else []
    kept = [one for one in places if isinstance(one, (ast.Name, ast.Call))]
    return len(kept) == 2 and ast.dump(kept[0]) == ast.dump(kept[1])


def _of_diagonal(asked: Asked, node: ast.AST, scope: Scope) -> ast.expr | None:
    """`m` of `m[:, i, i]`, of `torch.diag(m)` and of `m.diagonal(dim1=1, dim2=2)`; other diagonals
    hold no squares.
    """
    if isinstance(node, ast.Subscript):
        return node.value
    assert isinstance(node, ast.Call)
    found = spelled(asked.inference, node, scope)
    if found is None or found.op.name not in DIAGONALS:
        return None
    given = given_to(found, node)
    named = [keyword_of(node, name) for name in ("offset", "diagonal")]
    offsets = filter(None, [*given[1:2], *named])
    is_main = all(number(one, scope) == 0 for one in offsets)
    return given[0] if given and is_main else None
