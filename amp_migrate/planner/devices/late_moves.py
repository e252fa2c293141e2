"""Moves that only run behind all training, or never: a model that is put on a GPU to be evaluated
there was not trained there, and a method that nobody calls moves nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, LOOPS, Scope
from amp_migrate.planner.devices.mover_methods import is_uncalled
from amp_migrate.planner.devices.moves import Move

_HOPS = 3
_Trained: TypeAlias = "dict[Scope, list[ast.expr]]"


def without_late(program: Program, moves: list[Move]) -> list[Move]:
    """The moves without those behind all training, and in methods that nobody calls; all, where
    none is before it.
    """
    if len(moves) < 2:
        return moves
    called = [one for one in moves if not is_uncalled(program, one.scope)]
    return [one for one in called if not _is_late(program, one)] or moves


def _is_late(program: Program, move: Move) -> bool:
    """Whether a move stands behind each backward that it shares a body with, and some do."""
    trained = program.remembered(_training, lambda: _training(program))
    pairs = [
        (backward, here)
        for scope, here in _ways(program, move.scope, move.call, _HOPS)
        for backward in trained.get(scope, ())
    ]
    return bool(pairs) and all(
        _is_behind(program, here, backward) for backward, here in pairs
    )


def _training(program: Program) -> _Trained:
    """What leads to a backward, by the scope that it stands in."""
    found: _Trained = {}
    for scope in program.module.scopes.values():
        for call in program.effects.backwards(scope):
            for where, node in _ways(program, scope, call, _HOPS):
                found.setdefault(where, []).append(node)
    return found


def _ways(
    program: Program, scope: Scope, node: ast.expr, hops: int
) -> Iterator[tuple[Scope, ast.expr]]:
    """An expression, and the calls that lead to it, with their scopes."""
    yield scope, node
    if hops and isinstance(scope.node, FUNCTIONS):
        for call, caller, _ in program.reaching.entry.sites(scope.node):
            if caller is not scope and call in program.module.parents:
                yield from _ways(program, caller, call, hops - 1)


def _is_behind(program: Program, late: ast.expr, early: ast.expr) -> bool:
    """Whether one of two expressions of a body stands behind the other, in no loop with it."""
    around = set(program.module.ancestors(early))
    return early.lineno < late.lineno and not any(
        isinstance(one, LOOPS) and one in around
        for one in program.module.ancestors(late)
    )
