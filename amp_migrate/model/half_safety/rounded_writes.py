"""Probabilities that are written into a part of a tensor: `p[..., 0] = torch.sigmoid(p[..., 0])`.

A half tensor rounds once more what is written into it, so it is the one that has to be float32.
"""

from __future__ import annotations

import ast

from amp_migrate.model.half_safety.half_buffers import makers
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.trail import (
    Origin,
    Trail,
    Unseen,
    WeakPlace,
)
from amp_migrate.model.syntax.module import Scope


def held_by(
    asked: Asked,
    written: Trail,
    buffer: ast.Name | ast.Attribute,
    scope: Scope,
) -> tuple[Trail, list[Unseen]]:
    """What is behind the values that are written into a tensor, and behind that tensor; the latter
    where it cannot be made float32.
    """
    fact = asked.fact(buffer, scope)
    squashed = Origin.SQUASHED in written.origin
    if not squashed or fact.container or not fact.seen_half:
        return written, []
    name = ast.unparse(buffer)
    what = f"`{name}` is half precision, and rounds what is written into it"
    made = makers(asked, buffer)
    rest = [one for one in written.weak if not _is_part_of(one.cast, name)]
    if not made:
        weak = WeakPlace(None, what, saturates=True)
        return Trail((weak, *rest), written.origin), [Unseen(buffer, what)]
    casts = [WeakPlace(one, what, saturates=True) for one in made]
    return Trail((*casts, *rest), written.origin), []


def _is_part_of(expr: ast.expr | None, name: str) -> bool:
    """`p[..., 0]` of `p`"""
    while isinstance(expr, ast.Subscript):
        expr = expr.value
    return expr is not None and ast.unparse(expr) == name
