"""Parameters that a body replaces where nothing is given for them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def is_replaced(
    program: Program, name: str, node: ast.AST, bindings: Iterable[Binding]
) -> bool:
    """Whether `if device is None: device = ...` has run before `node`: no None that a caller gave
    comes this far.
    """
    module = program.module
    around = {node, *module.ancestors(node)}
    for one in bindings:
        branch = module.parents.get(one.statement)
        if not isinstance(branch, ast.If) or one.statement not in branch.body:
            continue
        block = module.block_of(branch)
        behind = block[block.index(branch) + 1 :]
        if _asks_for_nothing(branch.test, name) and around.intersection(behind):
            return True
    return False


def _asks_for_nothing(test: ast.expr, name: str) -> bool:
    """`device is None`, `not device`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return dotted_name(test.operand) == name
    return (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.Is)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
        and dotted_name(test.left) == name
    )
