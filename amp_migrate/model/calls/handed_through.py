"""Functions that give back what they are given: `init_net(net)`, which moves and wraps a network.
Each call gives its own, whatever the others give.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.torch_facts import layers

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_KEEP = ("to", "cuda", "cpu", "float", "train", "eval", "apply")


def handed_through(
    home: Program, result: ast.expr, call: ast.Call, inner: Scope
) -> ast.expr | None:
    """What `call` gives to the function of `inner` that is its `result` as well."""
    while (inner_value := moved(result)) is not None:
        result = inner_value
    if not isinstance(result, ast.Name):
        return None
    bindings = home.reaching.at(result, result.id).bindings
    if not bindings or not all(
        one.how == "parameter" or _is_kept(home, one, result.id)
        for one in bindings
    ):
        return None
    names = [one.arg for one in inner.parameters()]
    if result.id not in names:
        return None
    return argument(call, inner, result.id, inner.takes_receiver)


def moved(expr: ast.expr) -> ast.expr | None:
    """`data` of `data.to(device)`"""
    func = expr.func if isinstance(expr, ast.Call) else None
    keeps = isinstance(func, ast.Attribute) and func.attr in _KEEP
    return func.value if isinstance(func, ast.Attribute) and keeps else None


def _is_kept(home: Program, binding: Binding, name: str) -> bool:
    """`net = net.to(device)`, `net = nn.DataParallel(net)`"""
    made = binding.value
    if not isinstance(made, ast.Call) or binding.how != "assign":
        return False
    inner = moved(made)
    if inner is None:
        row = layers.layer(home.canonical(made.func) or "")
        is_wrapper = row is not None and row.role == "wrapper"
        inner = made.args[0] if is_wrapper and made.args else None
    return isinstance(inner, ast.Name) and inner.id == name
