"""A later place for a scaler, where what turns AMP on gets its name after the optimizer is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, LOOPS, Function, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.scaler_placement.construction import Anchors
from amp_migrate.planner.scaler_placement.homes import Home
from amp_migrate.planner.switch.amp_switch import SwitchFinder

_TRAINS = EventKind.BACKWARD | EventKind.STEP
_LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)


class LaterPlaces:
    """Statements of one body, behind the one that makes an optimizer."""

    def __init__(self, anchors: Anchors, switches: SwitchFinder) -> None:
        self.anchors = anchors
        self.program = anchors.program
        self.switches = switches

    def placed(self, home: Home, anchor: ast.stmt) -> tuple[ast.stmt, bool]:
        """The statement beside which a scaler is made, and whether it is made before it."""
        place, before = self.anchors.placed(home, anchor)
        return (place, True) if before else (self.readable(home, place), False)

    def readable(self, home: Home, anchor: ast.stmt) -> ast.stmt:
        """The first statement after which the switch can be read; `anchor` where that is so there,
        or nowhere before something may need the scaler.
        """
        if not self.switches.is_unread(home.scope, anchor):
            return anchor
        for statement in self._behind(anchor, home.scope):
            if not self._is_quiet(statement, home.scope):
                return anchor
            if not self.switches.is_unread(home.scope, statement):
                return statement
        return anchor

    def _behind(self, anchor: ast.stmt, scope: Scope) -> Iterator[ast.stmt]:
        """What runs after `anchor` whenever it has run, in its block and those around."""
        module = self.program.module
        here: ast.AST = anchor
        while isinstance(here, ast.stmt) and not isinstance(
            here, (*FUNCTIONS, *LOOPS)
        ):
            block = module.block_of(here)
            place = next(
                (i for i, one in enumerate(block) if one is here), len(block)
            )
            yield from block[place + 1 :]
            here = module.parents[here]
            if here is scope.node or not isinstance(here, (ast.If, ast.With)):
                return

    def _is_quiet(self, statement: ast.stmt, scope: Scope) -> bool:
        """Whether nothing in a statement trains, leaves the body, keeps or restores a state, or
        runs a method that may want the scaler.
        """
        if any(isinstance(node, _LEAVES) for node in nodes_in(statement)):
            return False
        return self._runs_quietly(statement, scope, frozenset())

    def _runs_quietly(
        self, statement: ast.stmt, scope: Scope, seen: frozenset[Function]
    ) -> bool:
        if self.program.effects.of_statement(statement, scope) & _TRAINS:
            return False
        return not any(
            self._may_want(node, scope, seen) for node in nodes_in(statement)
        )

    def _may_want(
        self, node: ast.AST, scope: Scope, seen: frozenset[Function]
    ) -> bool:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return True
        if isinstance(node, ast.Attribute) and node.attr.endswith("state_dict"):
            held = self.program.values.kind(node.value, scope)
            return held is not Kind.MODEL  # a model's state holds no scaler's
        if not isinstance(node, ast.Call):
            return False
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(_is_self(one, scope) for one in given):
            return True
        run = self.program.values.callees(node, scope)
        told = node.func.value if isinstance(node.func, ast.Attribute) else None
        if not run:
            return told is not None and _is_self(told, scope)
        return any(
            not self._runs_quietly(
                statement, self.program.scope(one), seen | {one}
            )
            for one in run
            if one not in seen
            for statement in one.body
        )


def _is_self(expr: ast.expr, scope: Scope) -> bool:
    return isinstance(expr, ast.Name) and expr.id == scope.self_name
