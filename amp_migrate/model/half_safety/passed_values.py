"""Which operators let a 0 or a 1 through, and which make something else of it."""

from __future__ import annotations

import ast

from amp_migrate.model.half_safety.value_parts import Path
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops import Op, Trait
from amp_migrate.torch_facts.ops.roles import (
    AVERAGES,
    CASTS,
    LENGTHS,
    SORTS,
    TOTALS,
)

_KEPT = (
    frozenset("abs neg mean pow square".split())
    | {one.name for one in ops.shapes.ROWS if one.result in ("same", "tuple")}
    | {row.name for row in ops.writes.ROWS if row.strict is not None}
    | {*AVERAGES}
)
_COPIES = ("list", "tuple", "reversed")
_FOLDS = {"sum": 0, "max": 0, "min": 0, "functools.reduce": 1}
"""What makes one value of a list, by the place of the list."""
_ANEW = ("default", "data", "like", "int", "bool", "number", "array")


def passes(op: Op, trait: Trait) -> bool:
    """Whether an operator keeps a value at 0 or 1 there."""
    is_sum = trait is Trait.LOG and op.name in TOTALS
    is_kept = op.name in _KEPT or op.name in LENGTHS
    is_picked = Trait.PICKS in op.traits or op.name in SORTS
    return is_sum or is_kept or is_picked or op.result in CASTS


def makes_anew(op: Op, *, complemented: bool = False) -> bool:
    """Whether what comes out is computed in float32 between bounds, or of no tensor at all. A
    length is 0 where all that it is made of is.
    """
    is_bounded = op.policy == "fp32" and op.bounds is not None
    is_length = op.name in LENGTHS and not complemented
    return is_bounded and not is_length or op.result in _ANEW


def taken_from(
    program: Program, call: ast.Call
) -> tuple[ast.expr, Path] | None:
    """The list that `list(...)` copies, and the one of which `sum(...)` makes one value."""
    named = dotted_name(call.func) or ""
    if named in _COPIES and len(call.args) == 1:
        return call.args[0], ()
    place = _FOLDS.get(program.canonical(call.func) or named)
    if place is None or len(call.args) <= place:
        return None
    return call.args[place], (None,)
