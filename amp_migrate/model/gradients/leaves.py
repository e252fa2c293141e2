"""Tensors that are trained themselves, of no module: `torch.zeros(1, requires_grad=True)`,
`nn.Parameter(...)` (a temperature, a multiplier).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.gradients.flow import set_to_collect
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.torch_facts.layers import PARAMETERS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def is_leaf(program: Program, expr: ast.expr) -> bool:
    """Whether a name or an attribute holds a tensor that was made to collect gradients."""
    dotted = dotted_name(expr)
    if dotted is None:
        return False
    if set_to_collect(program, dotted):
        return True
    bindings = program.reaching.at(expr, dotted).bindings
    return any(_is_made(program, one.value) for one in bindings)


def _is_made(program: Program, value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call):
        return False
    if _sets(value.func) and not (value.args or value.keywords):
        return True
    asked = (
        *(one.value for one in value.keywords if one.arg == "requires_grad"),
        *(value.args if _sets(value.func) else ()),
    )
    return program.canonical(value.func) in PARAMETERS or any(
        isinstance(one, ast.Constant) and one.value is True for one in asked
    )


def _sets(func: ast.expr) -> bool:
    """`x.clone().requires_grad_`"""
    return isinstance(func, ast.Attribute) and func.attr == "requires_grad_"
