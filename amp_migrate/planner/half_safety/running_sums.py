"""Sums that run over the batches: in half precision they stand still at 2048, where one more is
less than half a step. What they add up is added as float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.half_safety.hazards import Hazards


def sums_in_float(
    program: Program, scopes: Iterable[Scope], hazards: Hazards
) -> None:
    """Collect the casts of what the loops of these scopes add up over their turns."""
    for scope in scopes:
        for statement in scope.body:
            for node in nodes_in(statement):
                for name, added in _additions(node):
                    _collect(program, node, name, added, hazards)


def _collect(
    program: Program,
    node: ast.AST,
    name: str,
    added: ast.expr,
    hazards: Hazards,
) -> None:
    assert isinstance(node, ast.stmt)
    where = program.module.scope_of(node)
    if hazards.asked.fact(added, where).is_half:
        if _runs(program, node, name, where, hazards):
            hazards.cast(added)


def _additions(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """`acc += x`, `acc = acc + x`, `acc = x + acc`: the sum, and what it gets."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        name = dotted_name(node.target)
        if name is not None:
            yield name, node.value
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        name = dotted_name(node.targets[0])
        sides = (node.value.left, node.value.right)
        is_sum = isinstance(node.value.op, ast.Add) and name is not None
        for one, other in (sides, sides[::-1]) if is_sum else ():
            if dotted_name(one) == name and name is not None:
                yield name, other


def _runs(
    program: Program, node: ast.stmt, name: str, scope: Scope, hazards: Hazards
) -> bool:
    """Whether a sum goes on in the next turn, or the next call: where autocast is on and each turn
    begins it anew, it is part of one loss.
    """
    bindings = program.reaching.at(node, name).bindings
    before = [one for one in bindings if one.statement is not node]
    if len(before) == len(bindings) and "." not in name:
        return False
    inside = hazards.asked.inference.inside
    turn = next(
        (
            one
            for one in program.module.ancestors(node)
            if isinstance(one, (ast.For, ast.While)) and not inside(one)
        ),
        scope.node,
    )
    anew = all(
        turn in program.module.ancestors(one.statement) for one in before
    )
    return not (inside(node) and before and anew)
