"""Guards that half precision rounds away: small terms, bounds and writes."""

from __future__ import annotations

import ast

from amp_migrate.model.half_safety.half_buffers import makers
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.half_safety.trail import WeakPlace
from amp_migrate.model.half_safety.written_tensors import root_of, written_first
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope, shallow
from amp_migrate.model.tensors.bounds_of_calls import SAME_VALUES
from amp_migrate.model.tensors.spelling import given_to, is_method, spelled
from amp_migrate.model.values.literals import number
from amp_migrate.model.values.numbers import numbers
from amp_migrate.torch_facts.amp_api import BFLOAT16_EPSILON, HALF_EPSILON
from amp_migrate.torch_facts.ops import Spelling
from amp_migrate.torch_facts.ops.roles import BOUNDS, CASTS, FILLED, GUARDS

_HOPS = 3
SMALLEST = 2.0**-24
"""The smallest number above 0 of float16."""


def lost_term(
    asked: Asked, value: ast.expr, constant: ast.expr, scope: Scope
) -> tuple[WeakPlace, ...]:
    """A constant that half precision rounds away, beside a value that may be half."""
    sizes = numbers(asked.inference.program, constant, scope)
    if not any(_is_lost(asked, abs(size)) for size in sizes):
        return ()
    if not asked.needs_cast(value, scope):
        return ()
    return (WeakPlace(value, _vanishes(constant), saturates=False),)


def guarded(
    asked: Asked, found: Spelling, call: ast.Call, scope: Scope
) -> list[ast.expr]:
    """What a call keeps from an edge, then its bounds: `x.clamp(min=1e-8)`, `torch.max(x, eps)`,
    `torch.where(x < 1e-8, torch.full_like(x, 1e-8), x)`.
    """
    given = given_to(found, call)
    if found.op.name in BOUNDS:
        return given
    if found.op.name == "where":
        given = [given[0], *given[2:]] if is_method(found, call) else given[1:]
    elif found.op.name not in ("max", "min"):
        return []
    if len(given) != 2:
        return []
    first, second = (_filling(asked, one, scope) for one in given)
    if first is not None and second is None:
        given.reverse()
    return given if (first is None) != (second is None) else []


def lost_bound(
    asked: Asked, call: ast.Call, given: list[ast.expr], scope: Scope
) -> tuple[WeakPlace, ...]:
    """`x.clamp(min=1e-8)`, where `x` may be half."""
    for bound in [*given[1:], *(one.value for one in call.keywords)]:
        is_number = bool(numbers(asked.inference.program, bound, scope))
        inner = bound if is_number else _filling(asked, bound, scope)
        found = lost_term(asked, given[0], inner or bound, scope)
        if found and not is_number and _made_like(bound, given[0]):
            value = given[0]
            named = isinstance(value, (ast.Name, ast.Attribute))
            return _of_write(makers(asked, value) if named else [], bound)
        if found:
            return found
    return ()


def lost_write(
    asked: Asked, name: ast.Name | ast.Attribute, scope: Scope
) -> tuple[WeakPlace, ...]:
    """`d[d < 1e-10] = 1e-10` and `d.clamp_(1e-8)`: guards by a write, which are as weak where `d`
    is half.
    """
    if not asked.fact(name, scope).may_be_half:
        return ()
    dotted = dotted_name(name) or ""
    bindings = asked.inference.program.reaching.at(name, dotted).bindings
    for statement in (node for top in scope.body for node in shallow(top)):
        if isinstance(statement, ast.Assign) and _guards_by_write(
            asked, statement, dotted, scope
        ):
            values = [one.value for one in bindings if one.how == "assign"]
            casts = [one for one in values if one is not None]
            if len(casts) != len(bindings):
                casts = []
            return _of_write(casts, statement.value)
        guard = _guard_in_place(asked, statement, dotted, scope)
        if guard is not None:
            return _of_write(makers(asked, name), guard)
    return ()


def _of_write(casts: list[ast.expr], guard: ast.expr) -> tuple[WeakPlace, ...]:
    """The weak places of a guard that is written: what makes the tensor, where that is in sight."""
    what = _vanishes(guard)
    return tuple(
        WeakPlace(one, what, saturates=False) for one in casts or (None,)
    )


def _guard_in_place(
    asked: Asked, statement: ast.AST, dotted: str, scope: Scope
) -> ast.expr | None:
    """What half precision rounds away of `d.clamp_(1e-8)` or `d.abs_().add_(1e-8)`."""
    if not isinstance(statement, ast.Expr):
        return None
    program = asked.inference.program
    part: ast.expr | None = statement.value
    while part is not None and isinstance(part, ast.Call):
        found = spelled(asked.inference, part, scope)
        if found is not None and found.op.name in GUARDS:
            lost = [
                bound
                for bound in [
                    *given_to(found, part)[1:],
                    *(one.value for one in part.keywords),
                ]
                for size in numbers(program, bound, scope)
                if _is_lost(asked, abs(size))
            ]
            if lost and dotted_name(root_of(program, part)) == dotted:
                return lost[0]
        part = written_first(program, part)
    return None


def keeps_below_one(asked: Asked, call: ast.Call, scope: Scope) -> bool:
    """Whether a bound of a call is less than 1, and 1 in half precision."""
    program = asked.inference.program
    bounds = [*call.args, *(one.value for one in call.keywords)]
    sizes = [size for one in bounds for size in numbers(program, one, scope)]
    return any(size > 0.5 and _is_lost(asked, size) for size in sizes)


def _is_lost(asked: Asked, size: float) -> bool:
    """Whether float16 rounds a guard to 0, or either half type rounds it to 1."""
    if not asked.float16:
        return 1 - BFLOAT16_EPSILON < size < 1
    return 0 < size < SMALLEST or 1 - HALF_EPSILON < size < 1


def _vanishes(constant: ast.expr) -> str:
    """What to tell about a guard that is lost."""
    return f"`{ast.unparse(constant)}` is rounded away in half precision, so it guards nothing"


def _filling(
    asked: Asked, bound: ast.expr, scope: Scope, hops: int = _HOPS
) -> ast.expr | None:
    """`1e-8` of `torch.tensor(1e-8)`, `torch.full_like(x, 1e-8)`, `1e-8 * torch.ones_like(x)` and
    of a name for one of these: they guard as the number does.
    """
    program = asked.inference.program
    if isinstance(bound, ast.BinOp) and isinstance(bound.op, ast.Mult):
        sides = (bound.left, bound.right)
        known = [one for one in sides if numbers(program, one, scope)]
        return known[0] if len(known) == 1 else None
    if isinstance(bound, (ast.Name, ast.Attribute)) and hops:
        found = [
            _filling(asked, one, home, hops - 1)
            for one, home in values_of(asked, bound)
        ]
        return found[0] if len(found) == 1 else None
    row = (
        spelled(asked.inference, bound, scope)
        if isinstance(bound, ast.Call)
        else None
    )
    if row is None or not isinstance(bound, ast.Call):
        return None
    given = given_to(row, bound)
    if row.op.name in FILLED:
        place, name = FILLED[row.op.name]
        words = [one.value for one in bound.keywords if one.arg == name]
        inner = next(iter([*given[place:], *words]), None)
        is_known = inner is not None and bool(numbers(program, inner, scope))
        return inner if is_known else None
    if row.op.result in CASTS or row.op.name in SAME_VALUES:
        return _filling(asked, given[0], scope, hops) if given else None
    return None


def _made_like(bound: ast.expr, value: ast.expr) -> bool:
    """Whether a bound takes its dtype from the value that it bounds: `torch.full_like(x, 1e-8)`."""
    text = ast.unparse(value)
    return any(
        isinstance(n, ast.expr) and ast.unparse(n) == text
        for n in ast.walk(bound)
    )


def _guards_by_write(
    asked: Asked, statement: ast.Assign, dotted: str, scope: Scope
) -> bool:
    """`d[d < 1e-10] = 1e-10`"""
    target = statement.targets[0]
    size = number(statement.value, scope)
    return (
        isinstance(target, ast.Subscript)
        and dotted_name(target.value) == dotted
        and isinstance(target.slice, ast.Compare)
        and size is not None
        and _is_lost(asked, abs(size))
    )
