"""Whether a move to a device has run where a place is reached: by their order in the scopes that
lead to both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.planner.devices.moves import Move

_HOPS = 3
Place: TypeAlias = tuple[int, int]
"""A line, and a column in it."""


class MoveOrder:
    """The order of moves and places, through the callers of both."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._leading: dict[Scope, frozenset[Scope]] = {}

    def runs_before(
        self, move: Move, scope: Scope, place: ast.stmt, *, after: bool
    ) -> bool:
        """Whether a move has run before `place` does (or `after` it): by their order in the scopes
        that lead to both.
        """
        if self._is_constructed(move.scope, scope):
            return True
        late = self._orders(move, scope, place, after)
        if not late:
            return is_constructor(move.scope)
        # A scope may call twice what moves: a later call takes back nothing of the first.
        return all(any(not one for one in ways) for ways in late.values())

    def runs_later(
        self, move: Move, scope: Scope, place: ast.stmt, *, after: bool
    ) -> bool:
        """Whether a move is seen to run behind a place on some way that leads to both. Where the
        place's own scope makes the object that moves, that tells: another object moves its own.
        """
        late = self._orders(move, scope, place, after)
        if scope in late and self._is_of_object(move.scope, scope):
            return any(late[scope])
        # Each call of what moves its own moves another object.
        ways_behind = all if _makes_its_own(self.program, move) else any
        return any(map(ways_behind, late.values()))

    def _orders(
        self, move: Move, scope: Scope, place: ast.stmt, after: bool
    ) -> dict[Scope, list[bool]]:
        """Whether a move runs behind a place, by the scopes that lead to both, for each way from
        there to the move.
        """
        ours: dict[Scope, Place] = {}
        for where, at in self._ways(
            scope, _end(place) if after else _begin(place), _HOPS
        ):
            ours[where] = min(at, ours.get(where, at))
        found: dict[Scope, list[bool]] = {}
        for where, at in self._ways(move.scope, _end(move.call), _HOPS):
            if where in ours:
                found.setdefault(where, []).append(at > ours[where])
        return found

    def _is_constructed(self, first: Scope, scope: Scope) -> bool:
        """Whether `first` is a constructor of the object whose method `scope` is, one that no
        constructor calls: other objects of the class are made whenever they are.
        """
        return self._is_of_object(first, scope) and not any(
            self._is_of_object(one, scope) for one in self._leading_to(scope)
        )

    def _is_of_object(self, first: Scope, scope: Scope) -> bool:
        """Whether `first` is a constructor of the object whose method `scope` is."""
        made, cls = map(self.program.graph.class_around, (first, scope))
        if made is None or cls is None or not is_constructor(first):
            return False
        return made in {*self.program.graph.lineage(cls), cls}

    def leads(self, first: Scope, second: Scope) -> bool:
        """Whether one of two scopes leads to the other, or both are of one class."""
        one, other = map(self.program.graph.class_around, (first, second))
        if one is not None and other is not None:
            lineage = self.program.graph.lineage
            if one in lineage(other) or other in lineage(one):
                return True
        return first in self._leading_to(second) or second in self._leading_to(
            first
        )

    def is_of_other_script(self, move: Move, scope: Scope) -> bool:
        """Whether a move stands at the top level of another file, which does not lead to a scope
        whose callers are known.
        """
        function, root = scope.node, move.scope.module.root
        return (
            move.scope is root
            and isinstance(function, FUNCTIONS)
            and self.program.reaching.entry.is_followed(function)
            and root not in self._leading_to(scope)
        )

    def _leading_to(self, scope: Scope) -> frozenset[Scope]:
        """The scope, its callers and theirs; each once, for many ways may lead through one, and
        remembered, for every move of data asks.
        """
        if scope not in self._leading:
            found = near = {scope}
            for _ in range(_HOPS):
                near = {
                    where
                    for one in near
                    for where, _ in self._ways(one, (0, 0), 1)
                } - found
                found = found | near
            self._leading[scope] = frozenset(found)
        return self._leading[scope]

    def _ways(
        self, scope: Scope, at: Place, hops: int
    ) -> Iterator[tuple[Scope, Place]]:
        """The scope and its callers, each with the place that runs."""
        yield scope, at
        if hops and isinstance(scope.node, FUNCTIONS):
            for call, caller, _ in self.program.reaching.entry.sites(
                scope.node
            ):
                if caller is not scope and hasattr(call, "lineno"):
                    yield from self._ways(caller, _end(call), hops - 1)


def is_constructor(scope: Scope) -> bool:
    """Whether a scope is an `__init__`."""
    return isinstance(scope.node, FUNCTIONS) and scope.node.name == "__init__"


def _makes_its_own(program: Program, move: Move) -> bool:
    """Whether a function moves what it has made itself, at each call anew."""
    scope, moved = move.scope, move.moved
    if not isinstance(scope.node, FUNCTIONS) or not isinstance(moved, ast.Name):
        return False
    made = scope.bindings.get(moved.id, ())
    return bool(made) and all(_is_made_in(program, one, scope) for one in made)


def _is_made_in(program: Program, binding: Binding, scope: Scope) -> bool:
    if binding.how != "assign" or binding.value is None:
        return False
    origin = program.values.of(binding.value, scope).origin
    if not isinstance(origin, ast.Call) or origin not in program.module.parents:
        return False
    return program.module.scope_of(origin) is scope


def _begin(node: ast.stmt | ast.expr) -> Place:
    return node.lineno, node.col_offset


def _end(node: ast.stmt | ast.expr) -> Place:
    return node.end_lineno or node.lineno, node.end_col_offset or 0
