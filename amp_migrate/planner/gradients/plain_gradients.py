"""Gradients of an input that nothing has scaled: those of an attack on a batch, whose backward
stays as it is.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import names_stored
from amp_migrate.planner.gradients.cleared_before_steps import all_cleared
from amp_migrate.planner.gradients.sums import turn_of
from amp_migrate.planner.steps.step_calls import step_calls
from amp_migrate.torch_facts import ops

_NEW = ("detach", "clone")


def is_plain(
    program: Program, read: ast.Attribute, step: ast.Call, scope: Scope
) -> bool:
    """Whether `x.grad` is read where no scaled backward has run since `x` was made anew, in a block
    that leads to the read, and in the turn of the step.
    """
    name = read.value.id if isinstance(read.value, ast.Name) else ""
    made = _made_before(program, read, name)
    turn = turn_of(program, scope, step)
    above = program.module.ancestors(made) if made is not None else ()
    if made is None or not any(one is turn for one in above):
        return False
    return all(
        call.lineno > read.lineno and not _comes_back(program, call, made)
        for call in _scaled(program, scope)
        if call.lineno > made.lineno
    )


def _scaled(program: Program, scope: Scope) -> list[ast.Call]:
    """The calls of a scope that go backward for one of its steps."""
    steps = step_calls(program, scope)
    return [
        call
        for call in scope.calls
        if program.effects.of_statement(call, scope) & EventKind.BACKWARD
        and not all_cleared(program, call, steps)
    ]


def _made_before(
    program: Program, read: ast.expr, name: str
) -> ast.Assign | None:
    """The last statement of the blocks around a read that makes a name anew."""
    module, here = program.module, program.module.statement_of(read)
    while True:
        block = module.block_of(here)
        before = block[: next(i for i, s in enumerate(block) if s is here)]
        for one in reversed(before):
            if isinstance(one, ast.Assign) and name in _targets(one):
                return one if _is_new(program, one.value) else None
        above = module.statement_around(here)
        if above is None or above in module.scopes:
            return None
        here = above


def _targets(statement: ast.Assign) -> set[str]:
    return {name for one in statement.targets for name in names_stored(one)}


def _comes_back(program: Program, call: ast.Call, made: ast.stmt) -> bool:
    """Whether a call stands in a loop that begins behind the statement that makes the name."""
    block = program.module.block_of(made)
    at = next(i for i, one in enumerate(block) if one is made)
    around = {id(one) for one in program.module.ancestors(call)}
    return any(
        isinstance(one, (ast.For, ast.While)) and id(one) in around
        for one in block[at + 1 :]
    )


def _is_new(program: Program, value: ast.expr) -> bool:
    """`x.detach().requires_grad_()`, `torch.zeros_like(x).uniform_(-1, 1)`: no older tensor."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        made = ops.function(program.canonical(value.func))
        if made is not None:
            row = made.op
            return row.result == "default" or row.name.endswith("_like")
        if value.func.attr in _NEW:
            return True
        value = value.func.value
    return False
