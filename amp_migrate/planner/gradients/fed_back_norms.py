"""Norms of gradients that decide how later gradients are clipped: a limit that follows the mean of
the norms so far. The norm of a step that the scaler skips is infinite or no number, and would be
the limit of all steps after it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.conditions.decisions import is_decided_by
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope, returned
from amp_migrate.model.syntax.queries import children_of, nodes_in
from amp_migrate.planner.gradients.sums import (
    Addition,
    addition,
    is_gradient_read,
    is_guarded,
    turn_of,
)
from amp_migrate.planner.half_safety.reach import reachable
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.torch_facts.clippers import clipper

_DEEP = 4


def refuse_fed_back(program: Program, scope: Scope, step: ast.Call) -> None:
    """Raise Refusal where what is clipped by follows the norms of earlier turns."""
    turn = turn_of(program, scope, step)
    body = [one for one in children_of(turn) if isinstance(one, ast.stmt)]
    nodes = list(reachable(program, body, scope))
    limits = [
        one for node, where in nodes for one in _limits(program, node, where)
    ]
    for node, where in nodes if limits else ():
        kept = _kept(node)
        if kept is None or is_guarded(program, node):
            continue
        fed = any(
            is_decided_by(program, limit, (kept.target, where))
            for limit in limits
        )
        if fed and any(_is_norm(program, one, where) for one in kept.values):
            raise Refusal(
                "gradients-summed-up",
                step,
                f"norms of gradients are kept ({place_of(program, node)}), and gradients are "
                "clipped by what they come to: where one overflows, the scaler skips its step, "
                "but its norm stays",
            )


def _limits(
    program: Program, node: ast.AST, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What is no number in the call of a function that clips."""
    if not isinstance(node, ast.Call):
        return
    row = clipper(program.canonical(node.func))
    if row is not None and row.does == "clip":
        for one in (*node.args[1:], *(k.value for k in node.keywords)):
            if not isinstance(one, ast.Constant):
                yield one, scope


def _kept(node: ast.AST) -> Addition | None:
    """What is added to something, or set as an attribute."""
    if isinstance(node, ast.Assign) and isinstance(
        node.targets[0], ast.Attribute
    ):
        return Addition(node.targets[0], (node.value,))
    return addition(node)


def _is_norm(
    program: Program, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether a value is made of gradients, of what clips them, or of what a function in sight
    makes of them.
    """
    for node in nodes_in(expr) if deep else ():
        if is_gradient_read(node):
            return True
        if isinstance(node, ast.Call):
            if clipper(program.canonical(node.func)) is not None:
                return True
            function = program.values.callee(node, scope)
            values = returned(function) if function is not None else ()
            inner = program.scope(function) if function is not None else scope
            if any(_is_norm(program, one, inner, deep - 1) for one in values):
                return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            made = program.reaching.at(node, node.id).bindings
            if any(_gives(program, one, deep - 1) for one in made):
                return True
    return False


def _gives(program: Program, binding: Binding, deep: int) -> bool:
    value = binding.value
    if value is None or binding.how not in ("assign", "augmented"):
        return False
    home = program.module.scope_of(binding.statement)
    return _is_norm(program, value, home, deep)
