"""What a name may hold where constants decide the branches that set it: `if is_logit:`, where each
caller passes `is_logit=True`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.conditions.constant_conditions import is_decided
from amp_migrate.model.syntax.module import Binding

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def decided(
    program: Program, place: ast.expr, bindings: tuple[Binding, ...]
) -> tuple[Binding, ...]:
    """Of the bindings that reach a place along the text, those that do when the program runs."""
    if len(bindings) < 2 or not any(b.how == "parameter" for b in bindings):
        return bindings
    run = tuple(b for b in bindings if not _is_idle(program, b))
    if any(_always_comes_first(program, one, place) for one in run):
        run = tuple(one for one in run if one.how != "parameter")
    return run


def _is_idle(program: Program, binding: Binding) -> bool:
    """Whether a binding stands in an arm that never runs."""
    return any(
        is_decided(program, branch.test, not is_body)
        for branch, is_body in _branches(program, binding.statement)
    )


def _branches(
    program: Program, statement: ast.AST
) -> list[tuple[ast.If, bool]]:
    """The `if`s directly around a statement, innermost first, and whether it is in their body."""
    found: list[tuple[ast.If, bool]] = []
    inner = statement
    while inner in program.module.parents:
        above = program.module.parents[inner]
        if not isinstance(above, ast.If):
            break
        found.append((above, any(inner is one for one in above.body)))
        inner = above
    return found


def _always_comes_first(
    program: Program, binding: Binding, place: ast.expr
) -> bool:
    """Whether an assignment runs each time before a place does, since its branches are taken."""
    branches = _branches(program, binding.statement)
    if binding.how != "assign" or not branches:
        return False
    outermost = branches[-1][0]
    block = program.module.block_of(outermost)
    around = {id(one) for one in program.module.ancestors(place)}
    later = block[[one is outermost for one in block].index(True) + 1 :]
    return any(id(one) in around for one in later) and all(
        is_decided(program, branch.test, is_body)
        for branch, is_body in branches
    )
