"""Layers that are made with a number beyond float16, which they turn into the dtype of what
they are given: `nn.Hardtanh(-1e6, 1e6)`, `nn.ConstantPad1d(1, -1e9)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.huge_numbers import may_be_huge
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Value
from amp_migrate.torch_facts import layers

_DEEP = 4


def hazards(asked: Asked, call: ast.Call, scope: Scope) -> Iterator[Hazard]:
    """A layer that gets half, or a `nn.Sequential` with one among its layers."""
    made = asked.inference.program.values.of(call.func, scope)
    given = call.args[:1]
    for constant in _huge(asked, made):
        if asked.fact(given[0], scope).seen_half if given else False:
            yield _hazard(call, constant, (given[0],))
    if (made.name or "").endswith(".Sequential"):
        for constant in _inside(asked, made, _DEEP):
            yield _hazard(call, constant, ())


def _inside(asked: Asked, made: Value, deep: int) -> Iterator[ast.expr]:
    """The constants of the layers of a `nn.Sequential` after its first, which gets its input."""
    origin, program = made.origin, asked.inference.program
    if deep == 0 or origin not in program.module.parents:
        return
    if not isinstance(origin, ast.Call):
        return
    scope = program.module.scope_of(origin)
    for place, one in enumerate(origin.args):
        value = program.values.of(one, scope)
        if (value.name or "").endswith(".Sequential"):
            yield from _inside(asked, value, deep - 1)
        elif place > 0:
            yield from _huge(asked, value)


def _huge(asked: Asked, made: Value) -> Iterator[ast.expr]:
    """The arguments beyond float16 that a layer was made with."""
    row, origin = layers.layer(made.name), made.origin
    module = asked.inference.program.module
    if row is None or not row.constants or origin not in module.parents:
        return
    if not isinstance(origin, ast.Call):
        return
    named = {one.arg: one.value for one in origin.keywords}
    for place, name in row.constants:
        is_placed = place < len(origin.args)
        given = origin.args[place] if is_placed else named.get(name)
        if given is not None:
            if may_be_huge(asked, given, module.scope_of(origin)):
                yield given


def _hazard(
    call: ast.Call, constant: ast.expr, casts: tuple[ast.expr, ...]
) -> Hazard:
    message = f"`{ast.unparse(constant)}`, which a layer is made with, does not fit into float16"
    return Hazard("big-constant-in-half", call, casts, message)
