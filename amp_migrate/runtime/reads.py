"""Where a program measures gradients itself: its own clipper, a log of norms, anything that asks
`p.grad` for a size.

Reading the attribute alone is no measurement (`if p.grad is None`), and neither is a product with a
constant or an average over ranks, which are as right for scaled gradients. So the source is asked
what becomes of the gradient on the line that reads it.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from amp_migrate.model.syntax.queries import nodes_in, parents_in
from amp_migrate.runtime.sources import source
from amp_migrate.torch_facts.gradients import SAME_VALUES, SIZES


@functools.lru_cache(maxsize=256)
def measuring_lines(path: str) -> frozenset[int]:
    """Lines of the file at `path` where the size of a gradient is asked for; none where it cannot
    be read.
    """
    try:
        tree = ast.parse(source(path))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return frozenset()
    parents = parents_in(tree)
    found = [
        node
        for node in nodes_in(tree)
        if isinstance(node, ast.Attribute) and _is_measured(node, parents)
    ]
    return frozenset(line for node in found for line in _lines(node))


def _lines(node: ast.Attribute) -> Iterator[int]:
    return iter(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _is_measured(node: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> bool:
    if node.attr != "grad" or not isinstance(node.ctx, ast.Load):
        return False
    value: ast.AST = node
    while (further := _passed_on(value, parents)) is not None:
        value = further
    parent = parents.get(value)
    if isinstance(parent, ast.Attribute):
        return parent.attr in SIZES
    if isinstance(parent, ast.Call) and value in parent.args:
        return _last_name(parent.func) in SIZES
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Pow)
    return isinstance(parent, ast.Compare) and not all(
        isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops
    )


def _passed_on(
    value: ast.AST, parents: dict[ast.AST, ast.AST]
) -> ast.AST | None:
    """The expression around `value` that has the same values, if there is one."""
    parent = parents.get(value)
    if not isinstance(parent, ast.Attribute) or parent.attr not in SAME_VALUES:
        return None
    call = parents.get(parent)
    return (
        call if isinstance(call, ast.Call) and call.func is parent else parent
    )


def _last_name(function: ast.expr) -> str:
    return (
        function.attr
        if isinstance(function, ast.Attribute)
        else getattr(function, "id", "")
    )
