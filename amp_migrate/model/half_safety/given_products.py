"""Products of what no network gives, cameras with points, and of what was solved for, as rotations.

Autocast's half list is made for layers and for what comes out of them. Data multiplied with data
are coordinates, statistics, targets: half precision rounds pixel 1000.3 to 1000.5, and what is
learned from it is learned from another scene.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.products import product_factors
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType, Fact, Origin


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """Products all of whose factors come with the batch, are counted, or solved for."""
    if not isinstance(node, ast.expr) or not asked.inference.inside(node):
        return
    given = product_factors(asked, node, scope)
    facts = [asked.fact(one, scope) for one in given]
    if len(given) < 2 or not _are_given(facts):
        return
    casts = tuple(one for one in given if asked.needs_cast(one, scope))
    message = (
        f"`{ast.unparse(node)}` multiplies what no network gives, which half precision rounds: "
        "compute it with autocast switched off"
    )
    yield Hazard("loses-precision", node, casts, message)


def _are_given(facts: list[Fact]) -> bool:
    """Whether all are such data, which autocast would round: it leaves float64 alone."""
    may_be = DType.FLOAT | DType.HALF | DType.UNKNOWN
    if any(one.sparse or not one.dtypes & may_be for one in facts):
        return False
    solved = any(one.origin is Origin.SOLVED for one in facts)
    return solved or all(one.origin for one in facts)
