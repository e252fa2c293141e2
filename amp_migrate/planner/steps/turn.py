"""One turn of a training loop: its backwards and steps, and the loops, branches and blocks they
stand in.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, Scope
from amp_migrate.planner.regions.loss_flow import flow_of, header
from amp_migrate.planner.steps.step_calls import StepCall


@dataclass(frozen=True, eq=False)
class OptimizerStep:
    """One optimizer's step, `X.step()` or a call that leads to it."""

    made: StepCall
    statement: ast.stmt

    @property
    def call(self) -> ast.Call:
        """The call in the scope."""
        return self.made.call

    @property
    def optimizer(self) -> ast.expr:
        """The optimizer, as the scope can name it."""
        return self.made.optimizer

    @cached_property
    def key(self) -> str:
        """The optimizer as written, to tell whether two steps are of one."""
        return ast.dump(self.optimizer)


class Turn:
    """The gradient side of one scope."""

    def __init__(
        self,
        program: Program,
        scope: Scope,
        backwards: list[ast.Call],
        steps: list[StepCall],
        entered: bool = False,
    ) -> None:
        """`backwards`: calls that do (or lead to) a backward, in order; `steps`: those of the
        scope; `entered`: the gradients are there when the scope is entered.
        """
        self.program = program
        self.scope = scope
        self.flow = flow_of(scope, program)
        self.backwards = backwards
        module = program.module
        self.entered = entered
        self.steps = [
            OptimizerStep(one, module.statement_of(one.call)) for one in steps
        ]
        self._effects: dict[ast.stmt, EventKind] = {}

    def _header_effect(self, statement: ast.stmt) -> EventKind:
        if statement not in self._effects:
            effect = EventKind.NONE
            for root in header(statement):
                effect |= self.program.effects.of_statement(root, self.scope)
            self._effects[statement] = effect
        return self._effects[statement]

    @cached_property
    def _backward_orders(self) -> list[int]:
        """Where the backwards stand in the flow, sorted."""
        statements = map(self.program.module.statement_of, self.backwards)
        return sorted(
            self.flow.step(statement).order for statement in statements
        )

    def _guards(self, statement: ast.stmt) -> set[str]:
        """The conditions a statement stands under inside its training loop, as text (two `if` of
        one test are one guard).
        """
        found: set[str] = set()
        here: ast.AST = statement
        for parent in self.program.module.ancestors(statement):
            if parent is self.scope.node or (
                isinstance(parent, LOOPS)
                and self._holds_step_and_backward(parent)
            ):
                break
            if isinstance(parent, ast.If):
                branch = (
                    "then" if any(here is s for s in parent.body) else "else"
                )
                found.add(f"{branch} {ast.dump(parent.test)}")
            elif isinstance(parent, (ast.ExceptHandler, ast.match_case)):
                found.add(
                    f"{parent.lineno if isinstance(parent, ast.ExceptHandler) else id(parent)}"
                )
            here = parent
        return found

    def _holds_step_and_backward(self, loop: ast.stmt) -> bool:
        return bool(
            self.program.effects.of_statement(loop, self.scope)
            & (EventKind.BACKWARD | EventKind.STEP)
        )

    def _loop(self, statement: ast.stmt) -> ast.AST:
        """The innermost loop around a statement that also holds a backward, or the scope."""
        for parent in self.program.module.ancestors(statement):
            if parent is self.scope.node:
                break
            if (
                isinstance(parent, LOOPS)
                and self.program.effects.of_statement(parent, self.scope)
                & EventKind.BACKWARD
            ):
                return parent
        return self.scope.node

    def _in_block_of(self, statement: ast.stmt, other: ast.stmt) -> ast.stmt:
        """The ancestor of `statement` in a block around `other`."""
        module = self.program.module
        around = {id(other), *(id(a) for a in module.ancestors(other))}
        while not any(id(s) in around for s in module.block_of(statement)):
            parent = module.statement_around(statement)
            assert parent is not None
            statement = parent
        return statement

    def _inside(self, statement: ast.stmt, around: ast.AST) -> bool:
        return statement is around or any(
            a is around for a in self.program.module.ancestors(statement)
        )

    def _last_backward(self, step: OptimizerStep) -> int:
        end = self.flow.step(step.statement).order
        before = bisect_left(self._backward_orders, end)
        return self._backward_orders[before - 1] if before else -1

    def _of_inner_step(self, statement: ast.stmt, step: OptimizerStep) -> bool:
        """Whether gradients are used up by a step of the loop that this one comes after, for what
        the loop leaves over: `if n % 4 == 0: clip; step` and, behind the loop, the same again.
        """
        order = self.flow.step(statement).order
        return any(
            one.key == step.key
            and self._deeper(one, step)
            and order < self.flow.step(one.statement).order
            and self._guards(one.statement) <= self._guards(statement)
            for one in self.steps
        )

    def _deeper(self, inner: OptimizerStep, outer: OptimizerStep) -> bool:
        """Whether a step stands in a loop that another comes after."""
        loop = self._loop(inner.statement)
        before = (
            isinstance(loop, ast.stmt) and loop.lineno < outer.statement.lineno
        )
        return before and not any(
            a is loop for a in self.program.module.ancestors(outer.statement)
        )
