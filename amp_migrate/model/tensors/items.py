"""What an index, a slice or a key takes out of a value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors import dictionaries
from amp_migrate.model.tensors.entries_elsewhere import entry_elsewhere
from amp_migrate.model.tensors.fact import DType, Fact, Origin, join

if TYPE_CHECKING:
    from amp_migrate.model.tensors.inference import Inference

_SPACE = 3
"""The dimensions in which a camera turns."""


def item(inference: Inference, expr: ast.Subscript, scope: Scope) -> Fact:
    """What an expression takes out of what it is applied to."""
    held = inference.of(expr.value, scope)
    place = expr.slice.value if isinstance(expr.slice, ast.Constant) else None
    if held.container and isinstance(expr.slice, ast.Slice):
        return held.part(expr.slice)
    if held.container or held.elements and isinstance(place, int):
        return held.element(place if isinstance(place, int) else None)
    if isinstance(place, str):
        if entries := dictionaries.entries(inference.program, expr, place):
            return join(inference.each(entries))
        elsewhere = entry_elsewhere(inference, expr, place)
        if elsewhere is not None:
            return elsewhere
        return dictionaries.unseen_entry(inference, expr, place, held)
    if held.dtypes == DType.OTHER:
        return inference.unseen(expr)
    is_solved = held.origin is Origin.NETWORK and _is_rotation(expr)
    return held._replace(origin=Origin.SOLVED) if is_solved else held


def _is_rotation(expr: ast.Subscript) -> bool:
    """`pose[..., :3, :3]`: the rotation of a transform of space, exact as one that was solved for,
    whether it is data or learned.
    """
    if not isinstance(expr.slice, ast.Tuple):
        return False
    last = expr.slice.elts[-2:]
    return len(last) == 2 and all(map(_is_of_space, last))


def _is_of_space(part: ast.expr) -> bool:
    """`:3`"""
    if not isinstance(part, ast.Slice) or part.step is not None:
        return False
    ends = [part.upper, *([part.lower] if part.lower is not None else [])]
    numbers = [one.value for one in ends if isinstance(one, ast.Constant)]
    return numbers in ([_SPACE], [_SPACE, 0])
