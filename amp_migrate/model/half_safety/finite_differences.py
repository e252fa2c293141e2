"""Derivatives by finite differences, `(f(x + h) - f(x)) / h`: both outputs nearly agree, and half
precision has rounded away what is left of them, as it has `x + h` itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.divided_sums import division, summands
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.half_safety.second_moments import origins
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.spelling import spelled
from amp_migrate.model.values.literals import number

_DEEP = 6
_STEP = 0.1


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """A difference of what one model gives for neighbouring places, divided by their distance."""
    found = division(asked, node, scope)
    if found is None or not asked.inference.inside(node):
        return
    above, below = found
    size = number(below, scope)
    if size is not None and abs(size) >= _STEP:
        return
    if not _subtracts(asked, above, scope):
        return
    calls = [
        (one, home)
        for one, home in summands(asked, above, scope, _DEEP)
        if isinstance(one, ast.Call) and _is_half_output(asked, one, home)
    ]
    if len({ast.unparse(one) for one, _ in calls}) < 2:
        return
    step = set(_steps(asked, below, scope, _DEEP))
    by_model: dict[str, int] = {}
    for one, _ in calls:
        name = ast.unparse(one.func)
        by_model[name] = by_model.get(name, 0) + 1
    for one, home in calls:
        shifted = any(
            step & set(_shifts(asked, arg, home, _DEEP)) for arg in one.args
        )
        if by_model[ast.unparse(one.func)] > 1 and shifted:
            message = (
                f"`{ast.unparse(above)}` is what two nearly equal outputs differ by, and is "
                f"divided by the small step `{ast.unparse(below)}`: half precision has rounded "
                "the difference away; compute the outputs with autocast switched off"
            )
            moved = tuple(_moved(asked, calls))
            yield Hazard("loses-precision", node, moved, message)
            return


def _moved(
    asked: Asked, calls: list[tuple[ast.Call, Scope]]
) -> Iterator[ast.expr]:
    """The places that operators of torch are asked beside: in float32, so is what they give."""
    if any(spelled(asked.inference, one, home) is None for one, home in calls):
        return
    for one, home in calls:
        for arg in one.args[:1]:
            sides = [arg.left, arg.right] if isinstance(arg, ast.BinOp) else []
            yield from (x for x in sides if asked.fact(x, home).seen_half)


def _subtracts(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """Whether one output is taken from another anywhere in a sum."""
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
        for one, _ in origins(asked, expr, scope, _DEEP)
        for node in nodes_in(one)
    )


def _is_half_output(asked: Asked, call: ast.Call, scope: Scope) -> bool:
    """What a model, a function or an operator gives, which may be half."""
    if spelled(asked.inference, call, scope) is not None:
        return asked.fact(call, scope).seen_half
    return asked.inference.inside(call) and asked.fact(call, scope).may_be_half


def _steps(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[str]:
    """The names and numbers that a step is made of."""
    canonical = asked.inference.program.canonical
    for one in nodes_in(expr):
        if isinstance(one, (ast.Name, ast.Attribute)) and canonical(one):
            continue  # `np.sqrt` is no step
        if isinstance(one, ast.Name) and one.id == scope.self_name:
            continue
        if isinstance(one, ast.Name):
            yield one.id
            for value, home in values_of(asked, one) if deep > 0 else ():
                yield from _steps(asked, value, home, deep - 2)
        elif isinstance(one, ast.Attribute):
            yield ast.unparse(one)
        elif isinstance(one, ast.Constant) and isinstance(one.value, float):
            yield repr(one.value)


def _shifts(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[str]:
    """The names and numbers that are added to a place."""
    if deep <= 0:
        return
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, (ast.Add, ast.Sub)):
        yield from _steps(asked, expr, scope, deep)
    elif isinstance(expr, ast.Name):
        for value, home in values_of(asked, expr):
            yield from _shifts(asked, value, home, deep - 1)
