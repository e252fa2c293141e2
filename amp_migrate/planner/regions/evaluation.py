"""Evaluation loops (`--eval`): forwards under `no_grad` or `inference_mode` that are put under
autocast too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.gradients.flow import is_no_grad
from amp_migrate.model.program import Program
from amp_migrate.model.steps.effects import inner_statements
from amp_migrate.model.steps.events import BARRIER
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.regions.loss_flow import header
from amp_migrate.planner.regions.statement_runs import Region


def evaluation_regions(
    program: Program, training: list[Scope]
) -> Iterator[tuple[Scope, Region]]:
    """Runs from a forward to the loss that follows it, wherever no gradients are recorded."""
    for scope in program.module.scopes.values():
        if isinstance(scope.node, ast.ClassDef):
            continue
        for block in _blocks(program, scope):
            yield from (
                (scope, region) for region in _runs(program, scope, block)
            )


def _blocks(program: Program, scope: Scope) -> Iterator[list[ast.stmt]]:
    """Blocks of the scope under `no_grad`, innermost holders of a forward."""
    decorated = isinstance(scope.node, FUNCTIONS) and any(
        is_no_grad(d, program) for d in scope.node.decorator_list
    )
    seen: set[int] = set()
    for statement in _all(scope):
        if not _forward(program, scope, statement):
            continue
        block = program.module.block_of(statement)
        if id(block) not in seen and (
            decorated or _under_no_grad(program, statement)
        ):
            seen.add(id(block))
            yield block


def _all(scope: Scope) -> Iterator[ast.stmt]:
    """Every statement of a body, the inner ones too, nested definitions aside."""
    for statement in scope.body:
        yield statement
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            yield from inner_statements(statement)


def _under_no_grad(program: Program, statement: ast.stmt) -> bool:
    for parent in program.module.ancestors(statement):
        if isinstance(parent, (ast.With, ast.AsyncWith)) and any(
            is_no_grad(i.context_expr, program) for i in parent.items
        ):
            return True
        if isinstance(parent, FUNCTIONS):
            return False
    return False


def _runs(
    program: Program, scope: Scope, block: list[ast.stmt]
) -> Iterator[Region]:
    """The runs of statements of a block that belong to one forward pass."""
    index = 0
    while index < len(block):
        if not _forward(program, scope, block[index]):
            index += 1
            continue
        last = index
        while last + 1 < len(block) and (
            _forward(program, scope, block[last + 1])
            or _loss(program, scope, block[last + 1])
        ):
            last += 1
        yield Region(block[index], block[last], block)
        index = last + 1


def _forward(program: Program, scope: Scope, statement: ast.stmt) -> bool:
    """A simple statement that runs a model, in a function that is not itself a model's forward."""
    if not isinstance(
        statement, (ast.Assign, ast.AugAssign, ast.Expr, ast.AnnAssign)
    ):
        return False
    if program.effects.of_statement(statement, scope) & BARRIER:
        return False
    calls = [
        n
        for root in header(statement)
        for n in shallow(root)
        if isinstance(n, ast.Call)
    ]
    return any(
        program.effects.is_forward(c, scope)
        and program.values.callee(c, scope) is None
        for c in calls
    )


def _loss(program: Program, scope: Scope, statement: ast.stmt) -> bool:
    """Whether a statement computes a loss."""
    calls = [
        n
        for root in header(statement)
        for n in shallow(root)
        if isinstance(n, ast.Call)
    ]
    simple = isinstance(statement, (ast.Assign, ast.AugAssign))
    return simple and any(computes_loss(program, c, scope) for c in calls)


def computes_loss(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call is that of a criterion, or of a loss of `torch.nn.functional`."""
    if program.values.kind(call.func, scope) is Kind.CRITERION:
        return True
    name = program.canonical(call.func) or ""
    return name.startswith("torch.nn.functional.") and (
        "loss" in name or "entropy" in name
    )
