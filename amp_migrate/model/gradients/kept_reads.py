"""Gradients that are kept in a name first, `g = p.grad`, and measured by it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.gradients.uses import is_gradient
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.queries import names_in
from amp_migrate.torch_facts.gradients import (
    KEEPS_ZEROS,
    NUMBERS_OF,
    SAME_VALUES,
)

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def kept_read(program: Program, call: ast.Call) -> EventKind | None:
    """`g.norm()`, `g.abs().max()` where each binding of `g` is a gradient. One that is divided by
    its own norm shows no factor.
    """
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in NUMBERS_OF:
        return None
    name = _whole(func.value)
    if name is None or not _is_kept(program, name):
        return None
    if program.effects.is_scale_free_at(call) or _is_divided(program, call):
        return None
    return EventKind.READ


def _whole(expr: ast.expr) -> ast.Name | None:
    """`g` of `g.detach().float()`."""
    while not isinstance(expr, ast.Name):
        if isinstance(expr, ast.Call):
            func = expr.func
            if not isinstance(func, ast.Attribute):
                return None
            if func.attr not in SAME_VALUES | KEEPS_ZEROS:
                return None
            expr = func.value
        elif isinstance(expr, ast.Attribute) and expr.attr == "data":
            expr = expr.value
        else:
            return None
    return expr


def _is_kept(program: Program, name: ast.Name) -> bool:
    bindings = program.reaching.at(name, name.id).bindings
    return bool(bindings) and all(
        one.how == "assign" and one.value is not None and is_gradient(one.value)
        for one in bindings
    )


def _is_divided(program: Program, call: ast.Call) -> bool:
    """`g / g.norm()`, be it `g / (g.norm() + eps)`."""
    of = names_in(call)
    return any(
        isinstance(above, ast.BinOp)
        and isinstance(above.op, ast.Div)
        and bool(of & names_in(above.left))
        for above in program.module.ancestors(call)
        if isinstance(above, ast.expr)
    )
