"""Guards that half precision rounds away, as they are written."""

from __future__ import annotations

import ast

from amp_migrate.model.literals import number
from amp_migrate.model.names import dotted_name
from amp_migrate.model.syntax import Scope
from amp_migrate.torch_facts.amp_api import HALF_EPSILON

_SMALLEST = 2.0**-24


def is_lost(size: float) -> bool:
    """Whether float16 rounds a guard to 0, or to 1."""
    return 0 < size < _SMALLEST or 1 - HALF_EPSILON < size < 1


def vanishes(constant: ast.expr) -> str:
    """What to tell about a guard that is lost."""
    return f"`{ast.unparse(constant)}` is rounded away in float16, so it guards nothing"


def inner_number(bound: ast.expr) -> ast.expr:
    """`torch.tensor(1e-8)`, `torch.full_like(x, 1e-8)` and `1e-8 * torch.ones_like(x)` guard as
    `1e-8` does.
    """
    if isinstance(bound, ast.Call) and bound.args:
        return bound.args[-1]
    if isinstance(bound, ast.BinOp):
        return (
            bound.left
            if isinstance(bound.left, (ast.Constant, ast.Name))
            else bound.right
        )
    return bound


def made_like(bound: ast.expr, value: ast.expr) -> bool:
    """Whether a bound takes its dtype from the value that it bounds: `torch.full_like(x, 1e-8)`."""
    text = ast.unparse(value)
    return any(
        isinstance(n, ast.expr) and ast.unparse(n) == text
        for n in ast.walk(bound)
    )


def guards_by_write(statement: ast.Assign, dotted: str, scope: Scope) -> bool:
    """`d[d < 1e-10] = 1e-10`"""
    target = statement.targets[0]
    size = number(statement.value, scope)
    return (
        isinstance(target, ast.Subscript)
        and dotted_name(target.value) == dotted
        and isinstance(target.slice, ast.Compare)
        and size is not None
        and is_lost(abs(size))
    )
