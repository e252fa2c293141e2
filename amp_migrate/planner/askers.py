"""Which loops asked for the edits of a scope: what is not proved there is theirs, and the others
of the file can do without it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.span import Span
from amp_migrate.planner.loop_edits import LoopPlan
from amp_migrate.planner.scaler_placement.placement import Wiring
from amp_migrate.rewrite.edits import Edit, place


def askers(
    program: Program,
    wiring: Wiring,
    planned: Sequence[tuple[LoopPlan, Sequence[Edit]]],
) -> dict[str, dict[str, frozenset[tuple[str, str]]]]:
    """By path and scope: the loops, by path and scope, that have edits of their own there, or whose
    scaler is made there.
    """
    found: dict[str, dict[str, set[tuple[str, str]]]] = {}
    for plan, edits in planned:
        loop = plan.loop.scope
        for scope in {*_edited(program, edits), *_homes(wiring, loop)}:
            of_file = found.setdefault(scope.module.path, {})
            asked = of_file.setdefault(scope.qualname, set())
            asked.add((loop.module.path, loop.qualname))
    return {
        path: {scope: frozenset(loops) for scope, loops in scopes.items()}
        for path, scopes in found.items()
    }


def _edited(program: Program, edits: Sequence[Edit]) -> Iterator[Scope]:
    """The scopes in which edits stand."""
    for edit in edits:
        span = place(edit)
        if span is not None:
            yield _scope_at(program, span)


def _homes(wiring: Wiring, loop: Scope) -> Iterator[Scope]:
    for home, _, _ in wiring.scalers.places(loop):
        yield home


def _scope_at(program: Program, span: Span) -> Scope:
    """The innermost scope around a range."""
    file, _ = program.module.place(span)
    around = [
        scope for scope in file.own_scopes if _holds(program, scope, span)
    ]
    return around[-1]


def _holds(program: Program, scope: Scope, span: Span) -> bool:
    if isinstance(scope.node, ast.Module):
        return True
    outer = program.module.span(scope.node)
    return outer.start <= span.start and span.end <= outer.end
