"""Sums and products of half values whose range is known, and passes float16's: areas of boxes in
pixels, whose sides come from a scaled sigmoid; squares of values that are scaled up or down.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.making import where_made
from amp_migrate.model.half_safety.scales import scale
from amp_migrate.model.half_safety.second_moments import factors, kept_apart
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.bounds import reach
from amp_migrate.model.values.numbers import numbers
from amp_migrate.torch_facts.amp_api import HALF_MAX, HALF_NORMAL
from amp_migrate.torch_facts.ops.row import INFINITY

WIDE = HALF_MAX**0.5
"""From there on, the product of two values may be too large."""
LIKELY = 8192.0
"""What is multiplied with that must stay below 8."""
SELDOM = HALF_NORMAL / 8
"""What is multiplied with that must be above 8 to keep its digits."""
_MOST, _LEAST = "largest", "smallest normal"


def is_wide(asked: Asked, node: ast.AST, scope: Scope) -> bool:
    """Whether a half value is made here whose known range invites a product that overflows."""
    if not isinstance(node, ast.BinOp) or not asked.inference.inside(node):
        return False
    made = asked.fact(node, scope)
    return made.seen_half and WIDE < reach(made.bounds) < INFINITY


def products(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """`(out * 500) @ (out * 500).t()`, which autocast computes in half precision, whatever the
    operands are.
    """
    sides = factors(asked, node, scope)
    if len(sides) != 2 or not asked.inference.inside(node):
        return
    assert isinstance(node, ast.expr)
    scales = [scale(asked, one, scope) for one in sides]
    passed = _passed(scales[0] * scales[1])
    if passed and all(map(_fits, scales)):
        what = f"`{ast.unparse(node)}` may pass float16's {passed} value"
        yield from kept_apart(asked, node, sides, scope, what)


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """`(left + right) * (top + bottom)`, each below 65504, but not their product."""
    if not asked.inference.inside(node):
        return
    if isinstance(node, ast.AugAssign):
        yield from _in_place(asked, node, scope)
    if not isinstance(node, ast.BinOp):
        return
    if isinstance(node.op, ast.Div):
        yield from _divided(asked, node, scope)
    if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return
    made = asked.fact(node, scope)
    unbounded = made.seen_half and reach(made.bounds) == INFINITY
    if unbounded or node in asked.inference.casts:
        yield from _multiplied(asked, node, scope)
    if not made.seen_half or not HALF_MAX < reach(made.bounds) < INFINITY:
        return
    sides = (node.left, node.right)
    casts = [one for one in sides if asked.fact(one, scope).seen_half]
    if casts and all(
        reach(asked.fact(one, scope).bounds) <= HALF_MAX for one in casts
    ):
        message = f"`{ast.unparse(node)}` may pass float16's largest value"
        yield Hazard("big-constant-in-half", node, (casts[0],), message)


def _multiplied(
    asked: Asked, node: ast.BinOp, scope: Scope
) -> Iterator[Hazard]:
    """`(out * 1000) * (out * 1000)`, where the factors alone leave no room for the values."""
    if not isinstance(node.op, ast.Mult):
        return
    sides = (node.left, node.right)
    scales = [scale(asked, one, scope) for one in sides]
    casts = [one for one in sides if asked.fact(one, scope).seen_half]
    known = [scales[sides.index(one)] for one in casts]
    passed = _passed(scales[0] * scales[1])
    if not passed or not all(map(_fits, known)) or not known:
        return
    yield _hazard(node, passed, casts[:1])


def _divided(asked: Asked, node: ast.BinOp, scope: Scope) -> Iterator[Hazard]:
    """`distance / 0.00005`, which multiplies by 20,000."""
    made = asked.fact(node, scope)
    if not made.seen_half or reach(made.bounds) < INFINITY:
        return
    if not asked.fact(node.left, scope).seen_half:
        return
    passed = _passed_by(asked, node.left, node, node.right, scope)
    if passed:
        yield _hazard(node, passed, [node.left])


def _in_place(
    asked: Asked, node: ast.AugAssign, scope: Scope
) -> Iterator[Hazard]:
    """`distance *= 20000`: what is written becomes float32 where it is made."""
    held = asked.fact(node.target, scope)
    if not held.seen_half or reach(held.bounds) < INFINITY:
        return
    passed = _passed_by(asked, node.target, node, node.value, scope)
    if passed:
        yield _hazard(node, passed, where_made(asked, node.target, scope))


def _passed_by(
    asked: Asked,
    value: ast.expr,
    node: ast.BinOp | ast.AugAssign,
    other: ast.expr,
    scope: Scope,
) -> str:
    """Which end of float16's range a value passes that is multiplied, or divided, by a number."""
    if not numbers(asked.inference.program, other, scope):
        return ""
    before = scale(asked, value, scope)
    by = scale(asked, other, scope)
    if not _fits(before) or not by:
        return ""
    if isinstance(node.op, ast.Mult):
        return _passed(before * by)
    if isinstance(node.op, ast.Div):
        return _passed(before / by)
    return ""


def _hazard(
    node: ast.BinOp | ast.AugAssign, passed: str, casts: Iterable[ast.expr]
) -> Hazard:
    rule = "big-constant-in-half" if passed == _MOST else "eps-underflow"
    message = f"`{ast.unparse(node)}` may pass float16's {passed} value"
    return Hazard(rule, node, tuple(casts), message)


def _passed(factor: float) -> str:
    """Which end of float16's range values pass that are multiplied with a number."""
    small = 0 < factor < SELDOM
    return _MOST if factor >= LIKELY else _LEAST if small else ""


def _fits(factor: float) -> bool:
    return not _passed(factor)
