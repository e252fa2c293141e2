"""Objects that put themselves on the CPU while they are made, `self.to("cpu")`: whoever moves them
does so after their scaler is made, whose switch would never be on.
"""

from __future__ import annotations

import ast
from functools import cached_property

from amp_migrate.model.dataflow.body_events import is_of_same_object
from amp_migrate.model.dataflow.earlier_statements import has_run
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.planner.devices.moves import DeviceUse, Move
from amp_migrate.planner.devices.never_moved import why_unread
from amp_migrate.planner.refusal import place_of

_HOPS = 3


class OwnMoves:
    """What methods tell the methods of their own object that move it."""

    def __init__(self, program: Program, use: DeviceUse) -> None:
        self.program = program
        self.use = use

    @cached_property
    def _movers(self) -> set[ast.AST]:
        """The functions that move something."""
        return {move.scope.node for move in self.use.moves}

    def to_cpu(
        self, scope: Scope, place: ast.stmt, hops: int = _HOPS
    ) -> ast.Call | None:
        """The last one before a place, where it is told the CPU on each way that leads there."""
        if scope.self_name is None:
            return None
        told = self._last(scope, place, hops)
        function = scope.node
        if told is not None:
            return told if self._is_to_cpu(told) else None
        if not isinstance(function, FUNCTIONS) or not hops:
            return None
        for call, where, _ in self.program.reaching.entry.sites(function):
            if not is_of_same_object(call, where.self_name):
                return None
            at = self.program.module.statement_of(call)
            told = self.to_cpu(where, at, hops - 1)
            if told is None:
                return None
        return told

    def why(self, move: Move, scope: Scope, place: ast.stmt) -> str:
        """Why the device of a move cannot be asked at a place."""
        put = self.to_cpu(scope, place)
        if put is None:
            return why_unread(self.program, move)
        return (
            f"`{ast.unparse(put)}` ({place_of(self.program, put)}) puts the object on the CPU "
            "before its scaler would be made, and what moves it later cannot be asked there: give "
            "the device to the constructor"
        )

    def _is_to_cpu(self, call: ast.Call) -> bool:
        scope = self.program.module.scope_of(call)
        given = (self.use.devices.of(one, scope) for one in call.args)
        return any(one.is_cpu for one in given)

    def _last(
        self, scope: Scope, place: ast.stmt | None, hops: int
    ) -> ast.Call | None:
        """The last call of a body, of a method that moves the object; before a place, if told."""
        statement_of = self.program.module.statement_of
        for call in reversed(scope.calls):
            if not is_of_same_object(call, scope.self_name):
                continue
            statement = statement_of(call)
            if place is None:
                is_before = statement in scope.body
            else:
                is_before = has_run(self.program, statement, place)
            told = self._told(call, scope, hops) if is_before else None
            if told is not None:
                return told
        return None

    def _told(self, call: ast.Call, scope: Scope, hops: int) -> ast.Call | None:
        """The same of what one call of the own object runs, itself among it."""
        run = self.program.values.callee(call, scope)
        if run in self._movers and call.args:
            return call
        if run is None or not hops:
            return None
        return self._last(self.program.scope(run), None, hops - 1)
