"""Layers whose output is an angle: `cos(self.w(seconds))`, `sin(3000 * self.first(x))`.

What is left of an angle after its turns is all that a sine sees, and half precision has eleven
digits for both: a clock (a layer of one input) and a large frequency stay in float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.literals import number
from amp_migrate.model.values.numbers import numbers
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.ops.roles import WAVES

_DEEP = 8
_MANY_TURNS = 256.0
"""An eighth of it is the step of half precision there, and a sixth of a turn beyond 2048."""
_SAME = frozenset(row.name for row in ops.shapes.ROWS if row.result == "same")


class Turned(NamedTuple):
    """A call of a layer, and what its output is multiplied with."""

    layer: ast.Call
    scope: Scope
    by: float


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The layers behind a sine or cosine that must be computed with autocast off."""
    if not isinstance(node, ast.Call) or not asked.inference.inside(node):
        return
    found = spelled(asked.inference, node, scope)
    if found is None or found.op.name not in WAVES:
        return
    for angle in operands(found, node)[:1]:
        for one in _behind(asked, angle, scope, 1.0, _DEEP):
            if one.by >= _MANY_TURNS or _is_clock(asked, one):
                yield _hazard(asked, node, one)


def _hazard(asked: Asked, node: ast.Call, turned: Turned) -> Hazard:
    given = turned.layer.args[:1]
    casts = [one for one in given if asked.needs_cast(one, turned.scope)]
    message = (
        f"`{ast.unparse(turned.layer)}` gives angles for `{ast.unparse(node.func)}`, of which half "
        "precision keeps too few digits: compute it with autocast switched off"
    )
    return Hazard("loses-precision", turned.layer, tuple(casts), message)


def _is_clock(asked: Asked, turned: Turned) -> bool:
    """Whether the layer has one input: a time, a position."""
    made = asked.inference.program.values.of(turned.layer.func, turned.scope)
    if not isinstance(made.origin, ast.Call) or made.name is None:
        return False
    width = [
        *made.origin.args[:1],
        *(
            one.value
            for one in made.origin.keywords
            if one.arg == "in_features"
        ),
    ]
    home = asked.inference.program.module.scope_of
    return made.name.endswith(".Linear") and any(
        number(one, home(one)) == 1 for one in width
    )


def _behind(
    asked: Asked, expr: ast.expr, scope: Scope, by: float, deep: int
) -> Iterator[Turned]:
    """The layers whose output an angle is, shifted, scaled, or seen in another shape."""
    if deep == 0:
        return
    if isinstance(expr, ast.Name):
        inner = values_of(asked, expr)
    elif isinstance(expr, ast.BinOp):
        yield from _of_operation(asked, expr, scope, by, deep)
        return
    elif isinstance(expr, ast.Call):
        found = spelled(asked.inference, expr, scope)
        if found is None:
            yield from _of_layer(asked, expr, scope, by)
            return
        given = operands(found, expr) if found.op.name in _SAME else []
        inner = [(one, scope) for one in given]
    elif isinstance(expr, (ast.Subscript, ast.Attribute)):
        inner = [(expr.value, scope)]
    else:
        return
    for one, home in inner:
        yield from _behind(asked, one, home, by, deep - 1)


def _of_operation(
    asked: Asked, expr: ast.BinOp, scope: Scope, by: float, deep: int
) -> Iterator[Turned]:
    program = asked.inference.program
    for one, other in ((expr.left, expr.right), (expr.right, expr.left)):
        sizes = numbers(program, other, scope)
        times = max(map(abs, sizes), default=1.0)
        scale = by * times if isinstance(expr.op, ast.Mult) else by
        if isinstance(expr.op, (ast.Mult, ast.Add, ast.Sub)):
            yield from _behind(asked, one, scope, scale, deep - 1)


def _of_layer(
    asked: Asked, call: ast.Call, scope: Scope, by: float
) -> Iterator[Turned]:
    value = asked.inference.program.values.of(call.func, scope)
    row = layers.layer(value.name)
    if row is not None and row.op is not None and row.op.policy == "lower":
        yield Turned(call, scope, by)
