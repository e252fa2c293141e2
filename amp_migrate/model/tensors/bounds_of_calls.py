"""Between which numbers the result of an operator lies, by those of its operands: of views, of what
is clamped, and of what is one of several values.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.tensors.bounds import clamped, hull
from amp_migrate.model.tensors.spelling import operands, operands_and_others
from amp_migrate.model.values.literals import number
from amp_migrate.model.values.numbers import numbers
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops import Spelling, Trait
from amp_migrate.torch_facts.ops.roles import FILLED
from amp_migrate.torch_facts.ops.row import Bounds

if TYPE_CHECKING:
    from amp_migrate.model.syntax.module import Scope
    from amp_migrate.model.tensors.inference import Inference

SAME_VALUES = frozenset(
    row.name
    for row in ops.shapes.ROWS
    if row.result in ("same", "tuple") or row.sequence
) - {"sum_to_size", "block_diag"}
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
    if found.op.name in FILLED:
        return _of_numbers(inference, found, call, scope)
    facts = [inference.of(one, scope) for one in operands(found, call)]
    if found.op.name in SAME_VALUES:
        return hull(fact.bounds for fact in facts)
    limits = [
        _limit(found, call, scope, place, name)
        for place, name in _CLAMPS.get(found.op.name, ())
    ]
    if not limits:
        return None
    return clamped(facts[0].bounds if facts else None, *limits)


def _of_numbers(
    inference: Inference, found: Spelling, call: ast.Call, scope: Scope
) -> Bounds | None:
    """`torch.tensor([width, height])`, `torch.full(size, 1e6)`"""
    place, name = FILLED[found.op.name]
    given = operands_and_others(found, call)
    words = {one.arg: one.value for one in call.keywords}
    value = words.get(name, given[place] if place < len(given) else None)
    parts = _parts(value) if value is not None else []
    known = [numbers(inference.program, one, scope) for one in parts]
    if not known or not all(known):
        return None
    return min(map(min, known)), max(map(max, known))


def _parts(value: ast.expr) -> list[ast.expr]:
    """Those of a nested display."""
    if isinstance(value, (ast.List, ast.Tuple)):
        return [inner for one in value.elts for inner in _parts(one)]
    return [value]


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
