"""Between which numbers values lie: interval arithmetic over what is known of the operands.

Bounds come from operators that have them (`sigmoid`), from numbers, and from `clamp`; what has none
gives none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.torch_facts.ops.row import INFINITY, Bounds


def hull(found: Iterable[Bounds | None]) -> Bounds | None:
    """The bounds of a value that is one of several."""
    held = list(found)
    known = [one for one in held if one is not None]
    if not held or len(known) < len(held):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def of_operation(
    op: ast.operator, left: Bounds | None, right: Bounds | None
) -> Bounds | None:
    """The bounds of `left op right`."""
    if left is None or right is None:
        return None
    if isinstance(op, ast.Add):
        return left[0] + right[0], left[1] + right[1]
    if isinstance(op, ast.Sub):
        return left[0] - right[1], left[1] - right[0]
    if isinstance(op, ast.Mult):
        return _product(left, right)
    if isinstance(op, ast.Div) and right[0] == right[1] and right[0] != 0:
        return _product(left, (1 / right[0], 1 / right[0]))
    return None


def negated(bounds: Bounds | None) -> Bounds | None:
    """The bounds of `-x`."""
    return None if bounds is None else (-bounds[1], -bounds[0])


def clamped(
    given: Bounds | None, low: float | None, high: float | None
) -> Bounds | None:
    """The bounds of `clamp(x, low, high)`."""
    least, most = given or (-INFINITY, INFINITY)
    found = (
        least if low is None else max(least, low),
        most if high is None else min(most, high),
    )
    return None if found == (-INFINITY, INFINITY) else found


def reach(bounds: Bounds | None) -> float:
    """How far from zero a value may lie; infinite where nothing bounds it."""
    return INFINITY if bounds is None else max(map(abs, bounds))


def _product(left: Bounds, right: Bounds) -> Bounds:
    corners = [0.0 if 0.0 in (a, b) else a * b for a in left for b in right]
    return min(corners), max(corners)
