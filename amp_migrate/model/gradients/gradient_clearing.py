"""What clears gradients by hand: `p.grad = None`, `p.grad.data.zero_()`, `p.grad = zeros_like(p)`,
and the same of a variable that was set to one.
"""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.queries import holds, nodes_in
from amp_migrate.torch_facts.gradients import (
    FILLS,
    GRADIENTS,
    KEEPS_ZEROS,
    ZEROES,
    ZEROS,
)


def clears_by_hand(tree: ast.AST) -> bool:
    """Whether anything in a tree clears gradients otherwise than by `zero_grad`."""
    nodes = list(nodes_in(tree))
    held = {name for node in nodes for name in _holds_gradient(node)}
    return any(_clears(node, held) for node in nodes)


def gives_nothing(value: ast.AST | None) -> bool:
    """Whether a gradient that becomes `value` is gone: None, or zeros, whatever wraps them."""
    if isinstance(value, ast.Constant):
        return value.value is None
    if not isinstance(value, ast.Call):
        return False
    name = _last(value.func)
    if name in ZEROS or name in ZEROES:
        return True
    if isinstance(value.func, ast.Attribute) and name in KEEPS_ZEROS:
        return gives_nothing(value.func.value) or _wraps_zeros(value)
    return name in KEEPS_ZEROS and _wraps_zeros(value)


def _wraps_zeros(call: ast.Call) -> bool:
    """`Variable(torch.zeros(n))`"""
    given = call.args[:1]
    return any(isinstance(g, ast.Call) and gives_nothing(g) for g in given)


def _clears(node: ast.AST, held: set[str]) -> bool:
    if isinstance(node, ast.Assign):
        is_gone = gives_nothing(node.value)
        return is_gone and any(_is_gradient(t, set()) for t in node.targets)
    if not isinstance(node, ast.Call):
        return False
    func, last = node.func, _last(node.func)
    if last == "setattr" and len(node.args) == 3:
        name = node.args[1]
        is_named = isinstance(name, ast.Constant) and name.value in GRADIENTS
        return is_named and gives_nothing(node.args[2])
    is_zeroed = last in ZEROES or last in FILLS and _is_zero(node.args)
    if not is_zeroed:
        return False
    is_method = isinstance(func, ast.Attribute) and _is_gradient(
        func.value, held
    )
    return is_method or any(_is_gradient(one, held) for one in node.args)


def _is_zero(given: list[ast.expr]) -> bool:
    first = given[0] if given else None
    return isinstance(first, ast.Constant) and first.value == 0


def _is_gradient(expr: ast.AST, held: set[str]) -> bool:
    """`p.grad` and `p.grad.data[i]`, a variable that holds one, a list of them."""
    return holds(
        expr,
        lambda n: (
            isinstance(n, ast.Attribute)
            and n.attr in GRADIENTS
            or isinstance(n, ast.Name)
            and n.id in held
        ),
    )


def _holds_gradient(node: ast.AST) -> list[str]:
    """The variables that a statement or a comprehension sets to a gradient, or to several."""
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, (ast.For, ast.comprehension)):
        targets, value = [node.target], node.iter
    else:
        return []
    found = [one.id for one in targets if isinstance(one, ast.Name)]
    return found if found and _is_gradient(value, set()) else []


def _last(func: ast.expr) -> str:
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""
