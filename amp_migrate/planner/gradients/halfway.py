"""Gradients that are read halfway: between two backwards of one step."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cached_property

from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, shallow
from amp_migrate.planner.gradients.averaged_gradients import averages
from amp_migrate.planner.optimizers.passed_on import own_method
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.loss_flow import header
from amp_migrate.planner.steps.turn import OptimizerStep, Turn
from amp_migrate.planner.steps.turn_ends import cut_off


class Halfway(Turn):
    """Which statements read gradients, and whether any does so too early."""

    def _refuse_read_halfway(self, last: int) -> None:
        """Between two backwards into the same gradients they cannot be unscaled: what the second
        one adds would be scaled.
        """
        if last < 0:
            return
        steps = reversed(self._ahead(self._step_orders, -1, last))
        stepped = next(steps, -1)
        backwards = self._ahead(self._backward_orders, stepped, last)
        first = backwards[0] if backwards else last
        self._refuse_own_methods(first, last)
        read = self._ahead(self._read_orders, first, last)
        if read:
            raise self._halfway(self.flow.steps[read[0]].statement)

    def _halfway(self, read: ast.stmt) -> Refusal:
        return Refusal(
            "grad-read-before-unscale",
            read,
            "gradients are read here, between two backward passes, when they carry the "
            "scaler's factor (65,536 at first) and cannot be unscaled yet",
        )

    def _beside(self, last: int, step: OptimizerStep) -> list[ast.stmt]:
        """What runs between a backward and a step, where another branch of an `if` has the last
        backward before that: `if noisy: backward; add noise` beside `else: backward`; also what
        writes gradients there without one. Raises Refusal for what reads gradients there between
        two backwards.
        """
        flow, module = self.flow.steps, self.program.module
        if last < 0:
            return []
        final, end = flow[last].statement, step.statement
        apart = [
            order
            for order in self._backward_orders
            if order < last
            and cut_off(module, flow[order].statement, final)
            and not cut_off(module, flow[order].statement, end)
        ]
        found = [
            one
            for one in flow[:last]
            if self._writes(one.statement) or self._follows(one.order, apart)
            if cut_off(module, one.statement, final)
            and not cut_off(module, one.statement, end)
        ]
        for one in found:
            if self._reads(one.statement) and self._ahead_of(one.order, apart):
                raise self._halfway(one.statement)
        return [one.statement for one in found if one.order not in apart]

    def _follows(self, order: int, backwards: list[int]) -> bool:
        """Whether a turn comes to a place from one of some backwards."""
        return any(self._leads(before, order) for before in backwards)

    def _ahead_of(self, order: int, backwards: list[int]) -> bool:
        """Whether a turn comes from a place to one of some backwards."""
        return any(self._leads(order, later) for later in backwards)

    def _leads(self, first: int, second: int) -> bool:
        """Whether a turn goes on from one place to another."""
        steps = self.flow.steps
        places = steps[first].statement, steps[second].statement
        return first < second and not cut_off(self.program.module, *places)

    def _ahead(self, orders: list[int], first: int, last: int) -> list[int]:
        """Those between two places from which a turn goes on to the second."""
        begun, ended = bisect_right(orders, first), bisect_left(orders, last)
        steps, module = self.flow.steps, self.program.module
        later = steps[last].statement
        return [
            order
            for order in orders[begun:ended]
            if not cut_off(module, steps[order].statement, later)
        ]

    def _refuse_own_methods(self, first: int, last: int) -> None:
        """`optimizer.step_kd()` between two backwards."""
        roots = (
            node
            for step in self.flow.steps[first + 1 : last]
            for root in header(step.statement)
            for node in shallow(root)
        )
        for call in (one for one in roots if isinstance(one, ast.Call)):
            refusal = own_method(self.program, call, self.scope)
            if refusal is not None:
                raise refusal

    @cached_property
    def _step_orders(self) -> list[int]:
        return self._orders(
            lambda one: bool(self._header_effect(one) & EventKind.STEP)
        )

    @cached_property
    def _read_orders(self) -> list[int]:
        return self._orders(self._reads)

    def _orders(self, wanted: Callable[[ast.stmt], bool]) -> list[int]:
        """The places in the flow of the statements that are wanted, in order."""
        return [one.order for one in self.flow.steps if wanted(one.statement)]

    def _reads(self, statement: ast.stmt) -> bool:
        """Whether a statement itself reads gradients, averaging over processes aside."""
        if (
            not self._header_effect(statement) & EventKind.READS_GRADIENTS
            or self._header_effect(statement) & EventKind.STEP
        ):
            return False
        return not (
            self._averages(statement) or self._inside_reducer_loop(statement)
        )

    def _writes(self, statement: ast.stmt) -> bool:
        writes = self._header_effect(statement) & EventKind.WRITES_GRADIENTS
        return bool(writes) and not self._averages(statement)

    def _averages(self, statement: ast.stmt) -> bool:
        """Whether a call in a statement averages gradients over processes."""
        calls = [
            n
            for root in header(statement)
            for n in shallow(root)
            if isinstance(n, ast.Call)
        ]
        return any(averages(self.program, call, self.scope) for call in calls)

    def _inside_reducer_loop(self, statement: ast.stmt) -> bool:
        """`for p in ...: all_reduce(p.grad); p.grad /= n` averages as a whole."""
        for parent in self.program.module.ancestors(statement):
            if parent is self.scope.node:
                break
            if (
                isinstance(parent, LOOPS)
                and not self.program.effects.of_statement(parent, self.scope)
                & EventKind.BACKWARD
            ):
                return any(
                    isinstance(n, ast.Call)
                    and averages(self.program, n, self.scope)
                    for n in shallow(parent)
                )
        return False
