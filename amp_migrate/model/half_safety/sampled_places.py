"""The places that a picture is sampled at: `grid_sample(x, affine_grid(theta, size))`, a grid that
is warped by cameras and flows.

Of a picture 1000 pixels wide half precision tells every half pixel apart, and every product rounds
once more; what is added to them in float32 afterwards does not bring them back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.moved_places import (
    products_behind,
    sampled_at,
)
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled

_GRID = "nn.functional.affine_grid"
_SAMPLES = "nn.functional.grid_sample"


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """Grids, and the products that they are made of, that must be computed with autocast off."""
    if not isinstance(node, ast.Call):
        return
    found = spelled(asked.inference, node, scope)
    if found is None:
        return
    if found.op.name == _GRID:
        yield from _kept(asked, node, operands(found, node), scope)
    elif found.op.name == _SAMPLES:
        for grid in sampled_at(found, node):
            for product, given, home in products_behind(asked, grid, scope):
                yield from _kept(asked, product, given, home)


def _kept(
    asked: Asked, node: ast.expr, given: list[ast.expr], scope: Scope
) -> Iterator[Hazard]:
    """Where autocast is on, what is computed of `given` is kept out of it."""
    if asked.inference.inside(node):
        casts = tuple(one for one in given if asked.needs_cast(one, scope))
        message = (
            f"`{ast.unparse(node)}` gives places to sample at, which half precision rounds: "
            "compute it with autocast switched off"
        )
        yield Hazard("loses-precision", node, casts, message)
