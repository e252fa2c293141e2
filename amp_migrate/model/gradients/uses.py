"""What a program does with `p.grad`: whether it reads values that may be scaled."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.gradients.gathered import is_gathered
from amp_migrate.model.steps.effects import is_reducer
from amp_migrate.model.steps.events import EventKind
from amp_migrate.torch_facts.gradients import CARRIES_SCALE, KEEPS_ZEROS, SHAPES

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

BOUNDS = {"clamp_", "clip_", "nan_to_num_"}


def read_of_values(program: Program, node: ast.Attribute) -> EventKind | None:
    """A read of the values of `p.grad`."""
    if (
        node.attr != "grad"
        or not isinstance(node.ctx, ast.Load)
        or program.canonical(node) is not None
    ):
        return None
    if not program.effects.reads_gradients(node):
        return None
    parents = program.module.parents
    here: ast.AST = node
    parent = parents[here]
    while (onward := _same_gradient(parent, parents)) is not None:
        here, parent = onward, parents[onward]
    if isinstance(getattr(here, "ctx", None), ast.Store):
        return None  # `p.grad.data = x` puts it there: `x` is asked by itself
    if (
        isinstance(parent, ast.Attribute)
        and parent.attr in CARRIES_SCALE | SHAPES | BOUNDS
    ):
        return None
    if isinstance(
        parent, (ast.If, ast.BoolOp, ast.UnaryOp, ast.IfExp)
    ) or _is_moved(parent, here):
        return None
    if _is_rescaled(parent, parents.get(parent)) or _is_put_back(node, parents):
        return None
    if isinstance(parent, ast.Call) and is_reducer(parent):
        return None
    return None if is_gathered(program, node) else EventKind.READ


def _same_gradient(
    parent: ast.AST, parents: dict[ast.AST, ast.AST]
) -> ast.expr | None:
    """`p.grad.data`, `p.grad.detach()`: the gradient under another name."""
    if not isinstance(parent, ast.Attribute):
        return None
    if parent.attr == "data":
        return parent
    call = parents[parent]
    is_cut = parent.attr == "detach" and isinstance(call, ast.Call)
    above = parents[call] if is_cut else None
    is_asked = isinstance(above, ast.Attribute) and above.attr in CARRIES_SCALE
    return call if is_asked and isinstance(call, ast.Call) else None


def is_gradient(expr: ast.expr) -> bool:
    if isinstance(expr, ast.Attribute) and expr.attr == "data":
        expr = expr.value
    return isinstance(expr, ast.Attribute) and expr.attr == "grad"


def _is_rescaled(parent: ast.AST, above: ast.AST | None) -> bool:
    """`p.grad = p.grad / n`: as linear as `p.grad /= n`."""
    linear = isinstance(parent, ast.BinOp) and isinstance(
        parent.op, (ast.Mult, ast.Div)
    )
    return (
        linear
        and isinstance(above, ast.Assign)
        and all(map(is_gradient, above.targets))
    )


def _is_put_back(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    """`p.grad = p.grad.to(device)`: the same gradient, elsewhere or of another type."""
    here: ast.AST = node
    while isinstance(above := parents[here], ast.Attribute):
        call = parents[above]
        is_asked = isinstance(call, ast.Call) and call.func is above
        if above.attr != "data" and not (
            is_asked and above.attr in KEEPS_ZEROS
        ):
            return False
        here = call if is_asked else above
    put = parents[here]
    return (
        isinstance(put, ast.Assign)
        and put.value is here
        and all(map(is_gradient, put.targets))
    )


def _is_moved(parent: ast.AST, node: ast.AST) -> bool:
    """Kept, not looked at: `saved = p.grad`, `p.grad = q.grad / 2`."""
    if isinstance(parent, ast.BinOp) and isinstance(
        parent.op, (ast.Mult, ast.Div)
    ):
        return False
    return isinstance(parent, ast.Assign) and parent.value is node
