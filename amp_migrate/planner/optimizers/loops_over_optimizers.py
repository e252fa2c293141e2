"""`for optimizer in optimizers: optimizer.step()`: the same optimizers, gone through once more
before their gradients are read.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import LOOPS
from amp_migrate.model.syntax.queries import names_in
from amp_migrate.planner.regions.loss_flow import Flow

_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp)


def once_more(
    program: Program,
    flow: Flow,
    loop: ast.AST,
    step: ast.stmt,
    place: ast.stmt,
) -> str | None:
    """`optimizer in optimizers` of a loop that steps each of them, where it can be gone through
    before `place`, too: it gives the same objects there, and its variable is not in use.
    """
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        return None
    if loop.body[0] is not step or dotted_name(loop.iter) is None:
        return None
    if not _gives_them_again(program, flow, loop):
        return None
    between = flow.steps[flow.step(place).order : flow.step(loop).order]
    read = names_in(loop.iter)
    for one in between:
        if one.defines & read or loop.target.id in one.uses:
            return None
    return f"{loop.target.id} in {ast.unparse(loop.iter)}"


def _gives_them_again(program: Program, flow: Flow, loop: ast.For) -> bool:
    """Not an iterator, which is used up: a list, or what another loop, or each turn of one around
    it, goes through as well.
    """
    name = dotted_name(loop.iter) or ""
    bindings = program.reaching.at(loop.iter, name).bindings
    if bindings and all(isinstance(b.value, _DISPLAYS) for b in bindings):
        return True
    text = ast.unparse(loop.iter)
    others = (s.statement for s in flow.steps[: flow.step(loop).order])
    if any(
        isinstance(one, ast.For) and ast.unparse(one.iter) == text
        for one in others
    ):
        return True
    made = [set(program.module.ancestors(b.statement)) for b in bindings]
    return any(
        isinstance(one, LOOPS) and not any(one in around for around in made)
        for one in program.module.ancestors(loop)
    )
