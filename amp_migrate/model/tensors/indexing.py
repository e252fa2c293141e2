"""How many dimensions an index leaves."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.queries import is_none


def left_by(expr: ast.Subscript, whole: int) -> int:
    """Of `x[:, 0]`, `x[None]`, `x[ids]`, where `x` has `whole` dimensions at least.

    What is no number for certain may be a mask, which leaves one dimension of all that it covers.
    """
    parts = (
        expr.slice.elts if isinstance(expr.slice, ast.Tuple) else [expr.slice]
    )
    slices = sum(isinstance(one, ast.Slice) for one in parts)
    added = sum(is_none(one) for one in parts)
    kept = slices + added
    taken = [one for one in parts if not _keeps(one)]
    left = max(whole - len(taken) - slices, 0)
    if all(_is_number(one) for one in taken):
        return kept + left
    return max(kept, min(left, 1))


def _keeps(part: ast.expr) -> bool:
    is_open = isinstance(part, ast.Constant) and part.value in (None, ...)
    return is_open or isinstance(part, ast.Slice)


def _is_number(part: ast.expr) -> bool:
    inner = part.operand if isinstance(part, ast.UnaryOp) else part
    return isinstance(inner, ast.Constant) and type(inner.value) is int
