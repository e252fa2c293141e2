"""Matrices that are divided by the sums of their rows, `torch.diag(1 / g.sum(1)) @ g`: where a row
has nearly nothing in it, half precision makes an infinity of its inverse.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.half_safety.second_moments import (
    factors,
    kept_apart,
    origins,
)
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.numbers import numbers
from amp_migrate.torch_facts.ops.roles import DIAGONAL_MATRICES, INVERSES

_DEEP = 8
_Part = tuple[ast.expr, Scope]


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The product of a matrix and a diagonal of such inverses."""
    if not isinstance(node, ast.expr):
        return
    if not asked.inference.inside(node):
        return
    given = factors(asked, node, scope)
    degrees = _Degrees(asked)
    summed = {name for one in given for name in degrees.on_diagonal(one, scope)}
    if summed.isdisjoint(map(ast.unparse, given)):
        return
    what = f"`{ast.unparse(node)}` divides by sums that may be tiny"
    yield from kept_apart(asked, node, given, scope, what)


class _Degrees:
    """Follows the sides of a product back."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.program = asked.inference.program

    def on_diagonal(self, expr: ast.expr, scope: Scope) -> Iterator[str]:
        """Of what a matrix holds the inverse sums on its diagonal, and nothing beside it: the
        names of these tensors.
        """
        for name, given, home in self._operators(expr, scope):
            if name in DIAGONAL_MATRICES:
                yield from self._inverse(given, home, _DEEP)

    def _inverse(
        self, expr: ast.expr, scope: Scope, deep: int
    ) -> Iterator[str]:
        """`1 / g.sum(2)`, `g.sum(2).pow(-0.5)`, under names and in what a helper is given."""
        if not deep:
            return
        inverted = self._inverted(expr, scope)
        if inverted is not None:
            yield from self._summed(inverted, scope)
            return
        for one, home in self._behind(expr, scope):
            yield from self._inverse(one, home, deep - 1)

    def _behind(self, expr: ast.expr, scope: Scope) -> list[_Part]:
        """What a name was set to; what a call is given, and asked of."""
        if isinstance(expr, ast.Name):
            return values_of(self.asked, expr)
        if not isinstance(expr, ast.Call):
            return []
        found: list[_Part] = []
        for one in expr.args:
            found.append((one, scope))
        func = expr.func
        if self.program.canonical(func) is not None:
            return found
        if isinstance(func, ast.Attribute):
            found.append((func.value, scope))
        return found

    def _inverted(self, expr: ast.expr, scope: Scope) -> ast.expr | None:
        """What an expression is the inverse of, or of whose root."""
        if isinstance(expr, ast.BinOp):
            if isinstance(expr.op, ast.Div):
                is_number = self._numbers(expr.left, scope)
                return expr.right if is_number else None
            if not isinstance(expr.op, ast.Pow):
                return None
            return self._of_power(expr.left, expr.right, scope)
        name, given = self._operator(expr, scope)
        if name in INVERSES:
            return given[0]
        if name != "pow" or not isinstance(expr, ast.Call):
            return None
        return self._of_power(given[0], expr.args[-1], scope)

    def _of_power(
        self, base: ast.expr, exponent: ast.expr, scope: Scope
    ) -> ast.expr | None:
        known = self._numbers(exponent, scope)
        if not any(one < 0 for one in known):
            return None
        return base

    def _numbers(self, expr: ast.expr, scope: Scope) -> tuple[float, ...]:
        return numbers(self.program, expr, scope)

    def _summed(self, expr: ast.expr, scope: Scope) -> Iterator[str]:
        """What is summed up."""
        for name, given, _ in self._operators(expr, scope):
            if name == "sum":
                yield ast.unparse(given)

    def _operators(
        self, expr: ast.expr, scope: Scope
    ) -> Iterator[tuple[str, ast.expr, Scope]]:
        """The operators behind an expression, and what each is given first: of a method, the
        tensor that it is asked of.
        """
        behind = origins(self.asked, expr, scope, _DEEP)
        for one, home in behind:
            name, given = self._operator(one, home)
            if given:
                yield name, given[0], home

    def _operator(
        self, expr: ast.expr, scope: Scope
    ) -> tuple[str, list[ast.expr]]:
        """The operator that is called, and what it is given."""
        if not isinstance(expr, ast.Call):
            return "", []
        found = spelled(self.asked.inference, expr, scope)
        if found is None:
            return "", []
        given = operands(found, expr)
        if not given:
            return "", []
        return found.op.name, given
