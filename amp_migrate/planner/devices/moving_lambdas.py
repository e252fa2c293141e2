"""Lambdas that move what they are given to a device that they are given, too, and what stands
beside them: `apply(lambda x, to: x.to(to), batch, device)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.syntax.queries import calls_in


def handed_beside(call: ast.Call) -> Iterator[ast.expr]:
    """What a call hands over beside such a lambda: one of them is where it moves to."""
    given = [*call.args, *(one.value for one in call.keywords)]
    if any(isinstance(one, ast.Lambda) and _moves(one) for one in given):
        yield from (one for one in given if not isinstance(one, ast.Lambda))


def _moves(function: ast.Lambda) -> bool:
    """`lambda x, to: x.to(to)`"""
    names = {one.arg for one in function.args.args}
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "to"
        and {_name(call.func.value), *map(_name, call.args)} <= names
        for call in calls_in(function.body)
    )


def _name(expr: ast.expr) -> str | None:
    return expr.id if isinstance(expr, ast.Name) else None
