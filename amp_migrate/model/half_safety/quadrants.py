"""Angles of two half values.

The gradient of `atan2(y, x)` divides by `x * x + y * y`, which float16 holds between 2.4e-4 and 256
alone: below, it is infinite or NaN, guarded or not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.second_moments import roots
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands
from amp_migrate.torch_facts.ops import Spelling, Trait


def hazards(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """The operands of an angle; of `gx + 1e-8` its `gx`, beside which half loses the guard."""
    if Trait.TURNS not in found.op.traits:
        return
    given = operands(found, call)
    casts = tuple(root for one in given for root in roots(asked, one, scope))
    if casts:
        name = ast.unparse(call.func)
        message = f"the gradient of `{name}` divides by squares that float16 does not hold"
        yield Hazard("eps-underflow", call, casts, message)
