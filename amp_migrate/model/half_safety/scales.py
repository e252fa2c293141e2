"""How many times larger than what the network gives a value is: the product of the numbers that it
is multiplied with, here, in the functions that hand it on and in those that give it back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.targets import targets
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.syntax.module import Scope, returned
from amp_migrate.model.tensors.bounds_of_calls import SAME_VALUES
from amp_migrate.model.tensors.spelling import given_to, operands, spelled
from amp_migrate.model.values.numbers import numbers
from amp_migrate.torch_facts.ops import Trait
from amp_migrate.torch_facts.ops.roles import BOUNDS, FILLED

_HOPS = 6


def scale(
    asked: Asked, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> float:
    """The product of the numbers that a value is multiplied with, of several values the largest; 1
    where nothing is known.
    """
    known = numbers(asked.inference.program, expr, scope)
    if known:
        return max(map(abs, known))
    return asked.inference.program.remembered(
        (scale, expr, hops), lambda: _scale(asked, expr, scope, hops)
    )


def _scale(asked: Asked, expr: ast.expr, scope: Scope, hops: int) -> float:
    if isinstance(expr, ast.BinOp):
        left = scale(asked, expr.left, scope, hops)
        return _of(expr.op, left, scale(asked, expr.right, scope, hops))
    found: list[float] = []
    for one in _shown(asked, expr, scope):
        found.append(scale(asked, one, scope, hops))
    for one, home in _behind(asked, expr, scope) if hops else ():
        found.append(scale(asked, one, home, hops - 1))
    return max(found, default=1.0)


def _of(op: ast.operator, left: float, right: float) -> float:
    if isinstance(op, ast.Mult):
        return left * right
    if isinstance(op, ast.Div):
        return left / right if right else 1.0
    return max(left, right) if isinstance(op, (ast.Add, ast.Sub)) else 1.0


def _shown(asked: Asked, expr: ast.expr, scope: Scope) -> list[ast.expr]:
    """The expressions within one that have its values: of a part the whole, of a view what it
    shows, of `torch.tensor([width, height])` the numbers.
    """
    if isinstance(expr, ast.Subscript):
        return [expr.value]
    if isinstance(expr, (ast.Tuple, ast.List)):
        return expr.elts
    found = (
        spelled(asked.inference, expr, scope)
        if isinstance(expr, ast.Call)
        else None
    )
    if found is None or not isinstance(expr, ast.Call):
        return []
    op, given = found.op, given_to(found, expr)
    if op.name in FILLED:
        place, name = FILLED[op.name]
        words = [one.value for one in expr.keywords if one.arg == name]
        return [*given[place:], *words][:1]
    if op.result in ("data", "cast") or op.name in BOUNDS:
        return given[:1]
    passes = op.name in SAME_VALUES or Trait.PICKS in op.traits
    return operands(found, expr) if passes else []


def _behind(
    asked: Asked, expr: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What a name holds, and what a function or model in sight gives back."""
    program = asked.inference.program
    if isinstance(expr, ast.Name):
        yield from values_of(asked, expr, parts=True)
    if isinstance(expr, ast.Call):
        if spelled(asked.inference, expr, scope) is None:
            for function in targets(program, expr, scope):
                inner = program.module.scopes.get(function)
                if inner is not None:
                    yield from ((one, inner) for one in returned(function))
