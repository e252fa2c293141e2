"""Forwards that a planned loop shares with one that is left alone: under autocast the other loss
would come out of half precision, and nothing would scale it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_migrate.model.program import Program
from amp_migrate.model.steps.effects import inner_statements
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, Function, Scope, returned
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.planner.groups import Group
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.forward_regions import RegionFinder
from amp_migrate.planner.regions.handed_losses import regions_above
from amp_migrate.planner.regions.loss_flow import flow_of, header
from amp_migrate.planner.regions.statement_runs import Region, receivers

_DEEP = 4


def shared(
    program: Program,
    backward: ast.Call,
    regions: Iterable[tuple[Scope, Region]],
    left: Iterable[Group],
) -> Refusal | None:
    """Why the regions of `backward` cannot be put under autocast, where one of them runs a forward
    for the loss of a loop that is left alone.
    """
    planned = {s for _, region in regions for s in inside(region.statements())}
    for group in left:
        for where, statement in _forwards(program, group):
            if statement in planned:
                return _refusal(backward, statement, where, group)
    return None


def _refusal(
    backward: ast.Call, statement: ast.stmt, where: Scope, group: Group
) -> Refusal:
    place = f"{Path(where.module.path).name}:{statement.lineno}"
    other = f"`{ast.unparse(group.backwards[0])}` in `{group.scope.qualname}`"
    return Refusal(
        "mixed-gradients",
        backward,
        f"the forward in {place} also leads to {other}, which is left alone: under autocast, its "
        "gradients would need the scaler, too",
    )


def _forwards(
    program: Program, group: Group
) -> Iterator[tuple[Scope, ast.stmt]]:
    """The statements that run a model for the losses of a group."""
    for scope, region in _regions(program, group):
        for statement in inside(region.statements()):
            if _runs_model(program, statement, scope):
                yield scope, statement
    for backward in group.backwards:
        at = program.module.statement_of(backward)
        scope = program.module.scope_of(at)
        for loss in receivers(backward, program):
            yield from _behind(program, loss, at, scope, _DEEP)


def forwards_behind(
    program: Program, backwards: list[ast.Call]
) -> Iterator[tuple[Scope, ast.stmt]]:
    """The statements of a body that run a model for its losses."""
    for backward in backwards:
        at = program.module.statement_of(backward)
        scope = program.module.scope_of(at)
        for loss in receivers(backward, program):
            for statement in [*flow_of(scope, program).behind(loss, at), at]:
                if _runs_model(program, statement, scope):
                    yield scope, statement


def _behind(
    program: Program, loss: ast.expr, at: ast.stmt, scope: Scope, deep: int
) -> Iterator[tuple[Scope, ast.stmt]]:
    """Those in the functions that give a loss back: `loss = model.step(x)`."""
    flow = flow_of(scope, program)
    statements = [s for s in flow.behind(loss, at) if not isinstance(s, LOOPS)]
    for statement in dict.fromkeys([*statements, at]):
        if flow.without_gradient(statement):
            continue
        for call in calls_in(statement):
            for function in program.values.callees(call, scope):
                yield from given_back(program, function, deep - 1)


def given_back(
    program: Program, function: Function, deep: int = 1
) -> Iterator[tuple[Scope, ast.stmt]]:
    """The statements of a function that run a model for what it returns."""
    scope = program.scope(function)
    flow = flow_of(scope, program)
    for value in returned(function) if deep else ():
        at = program.module.statement_of(value)
        for statement in [*flow.behind(value, at), at]:
            if not flow.without_gradient(statement) and _runs_model(
                program, statement, scope
            ):
                yield scope, statement
        yield from _behind(program, value, at, scope, deep)


def _runs_model(program: Program, statement: ast.stmt, scope: Scope) -> bool:
    return any(
        program.effects.of_statement(root, scope) & EventKind.FORWARD
        for root in header(statement)
    )


def _regions(program: Program, group: Group) -> list[tuple[Scope, Region]]:
    scope = group.scope
    while isinstance(scope.node, ast.Lambda) and scope.parent is not None:
        scope = scope.parent  # it has no statements of its own
    try:
        found = RegionFinder(
            program, scope, group.backwards, frozenset()
        ).find()
        return [(scope, region) for region in found.regions]
    except Refusal:
        pass
    if scope is not group.scope:
        return []
    try:
        return [
            (scope, region)
            for scope, region, _ in regions_above(program, group)
        ]
    except Refusal:
        return []


def inside(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, and those that stand in them."""
    for statement in statements:
        yield statement
        yield from inner_statements(statement)
