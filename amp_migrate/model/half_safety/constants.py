"""Constants beyond float16's largest value, which are turned into the dtype of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety import overflow
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.huge_numbers import (
    carries_huge,
    may_be_huge,
)
from amp_migrate.model.half_safety.making import grown_from, where_made
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import spelled
from amp_migrate.torch_facts.ops import Spelling
from amp_migrate.torch_facts.ops.roles import BOUNDS_ABOVE, MIXES

_RULE = "big-constant-in-half"
_MIXES = (ast.Add, ast.Sub, ast.Mult)
_TYPED = ("cast", "default", "data")


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """Fills, bounds, choices, writes, factors and summands."""
    if isinstance(node, ast.Call):
        found = spelled(asked.inference, node, scope)
        if found is not None:
            yield from _of_operator(asked, node, found, scope)
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, _MIXES):
        if carries_huge(asked, node.value, scope) and _is_float(
            asked, node.target, node.value, scope
        ):
            yield from _in_place(asked, node, node.target, node.value, scope)
    elif isinstance(node, ast.Assign) and isinstance(
        node.targets[0], ast.Subscript
    ):
        if may_be_huge(asked, node.value, scope):
            yield from _in_place(
                asked, node, node.targets[0].value, node.value, scope
            )
    elif isinstance(node, ast.BinOp) and isinstance(node.op, _MIXES):
        for constant, tensor in (
            (node.left, node.right),
            (node.right, node.left),
        ):
            if not may_be_huge(asked, constant, scope):
                continue
            if any(True for _ in overflow.hazards(asked, tensor, scope)):
                continue  # what is cast there makes this float32, too
            if asked.fact(tensor, scope).seen_half:
                yield _hazard(node, constant, (tensor,))


def _of_operator(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    if found.op.result in _TYPED:
        yield from _turned(asked, call, found, scope)
    elif found.op.constants:
        yield from _of_call(asked, call, found, scope)
    elif found.op.name in MIXES:
        yield from _mixed_in(asked, call, found, scope)


def _mixed_in(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """`scores.add_(bias)`: what is written takes over the dtype of what holds it."""
    given = arguments(call, found)
    if found.form == "in-place" and len(given) > 1:
        if carries_huge(asked, given[1], scope):
            yield from _in_place(asked, call, given[0], given[1], scope)


def _turned(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """`((1 - mask) * -1e9).to(scores.dtype)`, which is minus infinity in half, and
    `torch.full(size, -1e9, dtype=scores.dtype)`.
    """
    given = arguments(call, found)
    if not given or not asked.fact(call, scope).seen_half:
        return
    if found.op.result == "cast" and asked.fact(given[0], scope).seen_half:
        return
    huge = [one for one in given if carries_huge(asked, one, scope)]
    if huge:
        models = tuple(_modelled_on(asked, call, given[1:], scope))
        yield _hazard(call, huge[0], models)


def _modelled_on(
    asked: Asked, call: ast.Call, given: list[ast.expr], scope: Scope
) -> Iterator[ast.expr]:
    """The tensors whose dtype a call asks for: `x` of `.to(x.dtype)` and `.type_as(x)`."""
    for one in [*given, *(k.value for k in call.keywords)]:
        named = isinstance(one, ast.Attribute) and one.attr == "dtype"
        tensor = one.value if isinstance(one, ast.Attribute) and named else one
        if asked.fact(tensor, scope).seen_half:
            yield tensor


def _of_call(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    given = arguments(call, found)
    huge = [
        one
        for one in constant_arguments(call, found, given)
        if one is not None and _is_huge(asked, one, scope)
    ]
    if not huge or not given:
        return
    if found.op.name == "where":
        others = [
            one
            for one in given[1:3]
            if one not in huge and _is_cast(asked, one, scope)
        ]
        if others:
            yield _hazard(call, huge[0], tuple(others))
    elif found.form == "in-place":
        yield from _in_place(asked, call, given[0], huge[0], scope)
    elif _is_cast(asked, given[0], scope) and _is_float(
        asked, given[0], huge[0], scope
    ):
        bounds = found.op.name in BOUNDS_ABOVE
        made = grown_from(asked, given[0], scope) if bounds else given[0]
        yield _hazard(call, huge[0], (made,))


def _is_huge(asked: Asked, given: ast.expr, scope: Scope) -> bool:
    """A number, or one of several: `x.new_tensor([1e5, 2e5])`."""
    if isinstance(given, (ast.List, ast.Tuple)):
        return carries_huge(asked, given, scope)
    return may_be_huge(asked, given, scope)


def _is_cast(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    return (
        asked.needs_cast(expr, scope) and not asked.fact(expr, scope).container
    )


def _is_float(
    asked: Asked, tensor: ast.expr, constant: ast.expr, scope: Scope
) -> bool:
    """A whole number may fill integers, which stay integers, where nothing tells."""
    if asked.fact(tensor, scope).seen_half:
        return True
    for part in ast.walk(constant):
        if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)):
            return True
        value = part.value if isinstance(part, ast.Constant) else None
        if isinstance(value, (float, str)):
            return True
    return False


def arguments(call: ast.Call, found: Spelling) -> list[ast.expr]:
    """The arguments in the order of the function form."""
    if found.form == "function" or not isinstance(call.func, ast.Attribute):
        return list(call.args)
    if found.op.name == "where":
        return [*call.args[:1], call.func.value, *call.args[1:]]
    return [call.func.value, *call.args]


def constant_arguments(
    call: ast.Call, found: Spelling, given: list[ast.expr]
) -> list[ast.expr | None]:
    """Those that are turned into the tensor's dtype, by place or by name."""
    named = {one.arg: one.value for one in call.keywords}
    return [
        given[place] if place < len(given) else named.get(name)
        for place, name in found.op.constants
    ]


def _in_place(
    asked: Asked,
    node: ast.AST,
    tensor: ast.expr,
    constant: ast.expr,
    scope: Scope,
) -> Iterator[Hazard]:
    """A tensor that is written in place becomes float32 where it is made."""
    if (
        _is_cast(asked, tensor, scope)
        and asked.fact(tensor, scope).may_be_tensor
    ):
        yield _hazard(node, constant, where_made(asked, tensor, scope))


def _hazard(
    node: ast.AST, constant: ast.expr, casts: tuple[ast.expr, ...]
) -> Hazard:
    message = f"`{ast.unparse(constant)}` does not fit into float16"
    return Hazard(_RULE, node, casts, message)
