"""Moves by the old names of types: `net.type(dtype)` of
`dtype = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program


def named_on_cuda(program: Program, call: ast.Call) -> ast.expr | None:
    """Where the one type on CUDA stands that a call of `.type` may get."""
    given = call.args[0] if len(call.args) == 1 else None
    arms = list(_arms(program, given)) if given is not None else []
    found = [one for one in arms if _is_on_cuda(program, one)]
    return found[0] if len(found) == 1 else None


def _arms(program: Program, expr: ast.expr) -> Iterator[ast.expr]:
    """What an expression, or the name that it is, may hold."""
    values: list[ast.expr | None] = [expr]
    dotted = dotted_name(expr)
    if dotted is not None and program.canonical(expr) is None:
        reach = program.reaching.at(expr, dotted)
        values = [one.value for one in reach.bindings]
    for value in values:
        if isinstance(value, ast.IfExp):
            yield from (value.body, value.orelse)
        elif value is not None:
            yield value


def _is_on_cuda(program: Program, expr: ast.expr) -> bool:
    text = expr.value if isinstance(expr, ast.Constant) else None
    name = text if isinstance(text, str) else program.canonical(expr)
    return f"{name}".startswith("torch.cuda.") and f"{name}".endswith("Tensor")
