"""Derivatives along a tensor, `(path[1:] - path[:-1]) / dt`: rows that nearly agree are taken from
each other, and half precision has rounded away what a small step makes large.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.divided_sums import division
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.literals import number
from amp_migrate.model.values.numbers import numbers

_DEEP = 6
_FINE, _FINE_IN_BFLOAT16 = 0.01, 0.1
"""Steps by which rounding is divided into a tenth of the values, and more."""


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """A difference of neighbouring rows, divided by a small number."""
    found = division(asked, node, scope)
    if found is None or not asked.inference.inside(node):
        return
    above, below = found
    if not _is_fine(asked, below, scope):
        return
    held = _rows_apart(asked, above, scope)
    if held is None:
        return
    message = (
        f"`{ast.unparse(above)}` is what neighbouring rows of `{held}` differ "
        f"by, and is divided by the small step `{ast.unparse(below)}`: half "
        "precision has rounded the difference away; compute the values with "
        "autocast switched off"
    )
    yield Hazard("loses-precision", node, (), message)


def _is_fine(asked: Asked, below: ast.expr, scope: Scope) -> bool:
    """Whether a divisor is a small number, by one of those in sight that it may
    be.
    """
    program = asked.inference.program
    limit = _FINE_IN_BFLOAT16
    if asked.float16:
        limit = _FINE
    known = numbers(program, below, scope)
    return any(0 < abs(one) <= limit for one in known)


def _rows_apart(asked: Asked, expr: ast.expr, scope: Scope) -> str | None:
    """The half tensor of which an expression is a difference of rows."""
    rows: dict[str, str] = {}
    terms = _Terms(asked)
    several = None
    for one, home in terms.of(expr, scope, _DEEP):
        whole = _whole(asked, one, home)
        if whole is None:
            continue
        if not asked.fact(whole, home).seen_half:
            continue
        name, part = ast.unparse(whole), ast.unparse(one)
        if isinstance(one, ast.Call):
            return name
        if rows.setdefault(name, part) != part:
            several = name
    return several if terms.subtracts else None


def _whole(asked: Asked, term: ast.expr, scope: Scope) -> ast.expr | None:
    """`path` of `path[:, 1:]` and of `torch.diff(path)`."""
    if isinstance(term, ast.Subscript):
        parts = nodes_in(term.slice)
        is_cut = any(isinstance(one, ast.Slice) for one in parts)
        return term.value if is_cut else None
    if not isinstance(term, ast.Call):
        return None
    found = spelled(asked.inference, term, scope)
    if found is None or found.op.name != "diff":
        return None
    return operands(found, term)[0]


class _Terms:
    """The terms of a sum, behind names and constant factors."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.subtracts = False
        self._seen: set[ast.expr] = set()

    def of(
        self, expr: ast.expr, scope: Scope, deep: int
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """Those of an expression, each once."""
        if not deep or expr in self._seen:
            return
        self._seen.add(expr)
        inner = list(self._inside(expr, scope))
        if not inner:
            yield expr, scope
        for one, home in inner:
            yield from self.of(one, home, deep - 1)

    def _inside(
        self, expr: ast.expr, scope: Scope
    ) -> Iterator[tuple[ast.expr, Scope]]:
        if isinstance(expr, ast.Name):
            yield from values_of(self.asked, expr)
        elif isinstance(expr, ast.UnaryOp):
            yield expr.operand, scope
        elif isinstance(expr, ast.BinOp):
            self.subtracts |= isinstance(expr.op, ast.Sub)
            for side in (expr.left, expr.right):
                if number(side, scope) is None:
                    yield side, scope
