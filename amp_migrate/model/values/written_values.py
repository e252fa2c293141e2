"""What is written into the tensor that a name holds: `losses[i] = loss`, `total.add_(loss)`. Zeros
carry gradients from then on.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_Write: TypeAlias = tuple[ast.expr, ast.expr]
"""What is written into, as a name or an attribute, and a value that is written."""
_PLACED = ("scatter", "index_", "masked_")
"""Methods that take places first, and what is written there last."""


def written_into(
    program: Program, expr: ast.Name | ast.Attribute, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """The values that are written into a variable of the scope, or into an attribute of that name,
    each with the scope it stands in.
    """
    dotted = dotted_name(expr) or ""
    writes = program.remembered(written_into, lambda: _by_name(program))
    for target, value in writes.get(dotted.rpartition(".")[2], ()):
        where = program.module.scope_of(target)
        own = dotted_name(target) or ""
        is_plain = "." not in dotted
        if is_plain != ("." not in own):
            continue
        if not is_plain or where.lookup(own) is scope.lookup(dotted):
            yield value, where


def _by_name(program: Program) -> Mapping[str, list[_Write]]:
    found: dict[str, list[_Write]] = defaultdict(list)
    for node in program.module.parents:
        for target, value in _writes(program, node):
            name = dotted_name(target)
            if name is not None:
                found[name.rpartition(".")[2]].append((target, value))
    return found


def _writes(program: Program, node: ast.AST) -> Iterator[_Write]:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        statement = program.module.statement_of(node)
        if isinstance(statement, (ast.Assign, ast.AugAssign)):
            yield _whole(node), statement.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method = node.func.attr
        if method.endswith("_") and not method.startswith("_"):
            given = [*node.args, *(one.value for one in node.keywords)]
            values = given[-1 if method.startswith(_PLACED) else 0 :]
            yield from ((_whole(node.func.value), one) for one in values)


def _whole(expr: ast.expr) -> ast.expr:
    """`losses` of `losses[i][j]`."""
    while isinstance(expr, ast.Subscript):
        expr = expr.value
    return expr
