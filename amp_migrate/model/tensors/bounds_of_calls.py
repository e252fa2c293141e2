"""Between which numbers the result of an operator lies, by those of its operands: of views, of what
is clamped, and of what is one of several values.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.tensors.bounds import clamped, hull
from amp_migrate.model.tensors.spelling import operands, operands_and_others
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops import Spelling, Trait
from amp_migrate.torch_facts.ops.row import Bounds

if TYPE_CHECKING:
    from amp_migrate.model.syntax.module import Scope
    from amp_migrate.model.tensors.inference import Inference

_SAME_VALUES = frozenset(
    row.name for row in ops.shapes.ROWS if row.result in ("same", "tuple")
) - {"sum_to_size"}
_CLAMPS: dict[str, tuple[tuple[int | None, str], tuple[int | None, str]]] = {
    "clamp": ((1, "min"), (2, "max")),
    "clamp_min": ((1, "min"), (None, "max")),
    "clamp_max": ((None, "min"), (1, "max")),
}


def bounds_given(
    inference: Inference, found: Spelling, call: ast.Call, scope: Scope
) -> Bounds | None:
    """Views keep the bounds of what they show, as copies and parts do."""
    if found.op.traits & Trait.PICKS:
        return _picked(inference, found, call, scope)
    facts = [inference.of(one, scope) for one in operands(found, call)]
    if found.op.name in _SAME_VALUES:
        return hull(fact.bounds for fact in facts)
    limits = [
        _limit(found, call, scope, place, name)
        for place, name in _CLAMPS.get(found.op.name, ())
    ]
    if not limits:
        return None
    return clamped(facts[0].bounds if facts else None, *limits)


def _picked(
    inference: Inference, found: Spelling, call: ast.Call, scope: Scope
) -> Bounds | None:
    """The bounds of what is one of the values that are given: `torch.max(a, b)`."""
    given = operands_and_others(found, call)
    for keyword in call.keywords:
        given.append(keyword.value)
    bounds: list[Bounds | None] = []
    for one in given:
        fact = inference.of(one, scope)
        if not fact.is_no_tensor:
            bounds.append(fact.bounds)
    return hull(bounds)


def _limit(
    found: Spelling, call: ast.Call, scope: Scope, place: int | None, name: str
) -> float | None:
    """A bound that `clamp` is given, by place in the function form or by name."""
    given = operands_and_others(found, call)
    named = next((one.value for one in call.keywords if one.arg == name), None)
    if named is None and place is not None and place < len(given):
        named = given[place]
    return None if named is None else number(named, scope)
