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
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.groups import Group
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.forward_regions import RegionFinder
from amp_migrate.planner.regions.handed_losses import regions_above
from amp_migrate.planner.regions.loss_flow import header
from amp_migrate.planner.regions.statement_runs import Region


def shared(
    program: Program,
    backward: ast.Call,
    regions: Iterable[tuple[Scope, Region]],
    left: Iterable[Group],
) -> Refusal | None:
    """Why the regions of `backward` cannot be put under autocast, where one of them runs a forward
    for the loss of a loop that is left alone.
    """
    planned = {s for _, region in regions for s in _inside(region.statements())}
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
        for statement in _inside(region.statements()):
            effects = [
                program.effects.of_statement(root, scope)
                for root in header(statement)
            ]
            if any(effect & EventKind.FORWARD for effect in effects):
                yield scope, statement


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


def _inside(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in statements:
        yield statement
        yield from inner_statements(statement)
