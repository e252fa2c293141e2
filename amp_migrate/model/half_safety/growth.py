"""Exponentials that stay in half, and pass float16's largest value from 11 on: those in place,
`similarity.exp_()`, and those that autocast does not know, `torch.special.i0(kappa)`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.torch_facts.amp_api import HALF_MAX
from amp_migrate.torch_facts.ops import Trait

_MOST = math.log(HALF_MAX)


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """What grows in half precision, of operands that nothing keeps small."""
    if not isinstance(node, ast.Call):
        return
    found = spelled(asked.inference, node, scope)
    if found is None or Trait.GROWS not in found.op.traits:
        return
    if not asked.fact(node, scope).seen_half:
        return
    for given in operands(found, node)[:1]:
        bounds = asked.fact(given, scope).bounds
        if bounds is None or bounds[1] > _MOST:
            what = f"`{ast.unparse(node)}` may pass float16's largest value"
            yield Hazard("big-constant-in-half", node, (given,), what)
