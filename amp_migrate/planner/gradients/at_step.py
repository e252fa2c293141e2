"""Steps that may find no gradients, or gradients of two scales: `scaler.step` raises there, or the
optimizer steps by what is no gradient.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.held_parameters import (
    in_both,
    optimized,
    trained,
)
from amp_migrate.model.syntax.module import LOOPS, shallow
from amp_migrate.model.syntax.opposites import holds_otherwise
from amp_migrate.model.syntax.queries import holds
from amp_migrate.planner.gradients.branches import always_one, opposite
from amp_migrate.planner.half_safety.reach import reachable
from amp_migrate.planner.optimizers.fed_optimizers import Feeding
from amp_migrate.planner.optimizers.parameter_uses import ParameterUses
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.loss_flow import header
from amp_migrate.planner.steps.later_steps import CLEARING, LaterSteps, clearing
from amp_migrate.planner.steps.step_calls import check_value
from amp_migrate.planner.steps.turn import OptimizerStep
from amp_migrate.planner.steps.turn_ends import EXITS, cut_off


class GradientsAtStep(LaterSteps):
    """What the steps of one scope find, by the order and the conditions of its statements."""

    def check_gradients(self) -> None:
        """Refuse steps that may find no gradients: `scaler.step` raises there."""
        for step in self.steps:
            self._check_evaluated(step)
            check_value(self.program, step.made)
            self._check_found(step)
            self._check_used(step)
            self._check_left(step)
            self._check_shared(step)
            self._check_fed(step)
            self._check_cleared(step)
            self._check_never_cleared(step)
            self._check_swallowed(step)
            self._check_averaged(step)

    def _check_evaluated(self, step: OptimizerStep) -> None:
        """`ready and optimizer.step()` may not step, and nothing can follow it where it does."""
        below: ast.AST = step.call
        for parent in self.program.module.ancestors(step.call):
            if isinstance(parent, ast.stmt):
                return
            always = (
                isinstance(parent, ast.BoolOp) and parent.values[0] is below
            )
            always |= isinstance(parent, ast.IfExp) and parent.test is below
            if isinstance(parent, (ast.BoolOp, ast.IfExp)) and not always:
                raise Refusal(
                    "unsupported-shape",
                    step.call,
                    "the step is a part of an expression that may leave it out: write an `if` "
                    "around it",
                )
            below = parent

    def _check_found(self, step: OptimizerStep) -> None:
        """`if loss > 0: loss.backward()` and an unconditional step: without gradients
        `scaler.step` raises.
        """
        around = [self.program.module.statement_of(b) for b in self.backwards]
        self._check_first_turn(step, around)
        mine = self._of_turn(step, around)
        if mine and not self._is_covered(step, mine):
            raise Refusal(
                "step-without-gradients",
                step.call,
                "the step runs where backward may not have: GradScaler.step does not accept an "
                "optimizer without gradients",
            )

    def _check_first_turn(
        self, step: OptimizerStep, around: list[ast.stmt]
    ) -> None:
        """A step before the backward of its turn has no gradients in the first."""
        end = self.flow.step(step.statement).order
        late = all(self.flow.step(s).order >= end for s in around)
        if around and not self.entered and late:
            self._check_left_later(step)
            raise Refusal(
                "step-without-gradients",
                step.call,
                "this step comes before the backward of its turn: in the first turn there are no "
                "gradients, which GradScaler.step does not accept",
            )

    def _check_left_later(self, step: OptimizerStep) -> None:
        """`with stepping(optimizer):`, which steps where its block ends."""
        statement = step.statement
        if isinstance(statement, (ast.With, ast.AsyncWith)) and any(
            one.context_expr is step.call for one in statement.items
        ):
            raise Refusal(
                "unsupported-shape",
                step.call,
                f"`{ast.unparse(step.call)}` runs the optimizer's step where its `with` block is "
                "entered or left: call the step in the loop itself",
            )

    def _check_averaged(self, step: OptimizerStep) -> None:
        """`clip(model); all_reduce(gradients); optimizer.step()`: what a scaler finds where it
        unscales is of one process alone.
        """
        first = self.unscale_place(step)
        if first is None:
            return
        begin = self.flow.step(first).order
        for statement in self._between(step):
            if self.flow.step(statement).order <= begin:
                continue
            if self._averages(statement) or self._inside_reducer_loop(
                statement
            ):
                line = getattr(first, "lineno", 1)
                raise Refusal(
                    "gradient-mutated",
                    statement,
                    "gradients are averaged over processes here, behind line "
                    f"{line}, which reads them unscaled: a process whose own were finite would "
                    "step with the overflow of another; average before that line",
                )

    def _of_turn(
        self, step: OptimizerStep, around: list[ast.stmt]
    ) -> list[ast.stmt]:
        """The statements with a backward that come before a step, in the loop that it ends."""
        end = self.flow.step(step.statement).order
        loop = self._loop(step.statement)
        return [
            s
            for s in around
            if self.flow.step(s).order < end
            and (loop is self.scope.node or self._inside(s, loop))
        ]

    def _is_covered(self, step: OptimizerStep, mine: list[ast.stmt]) -> bool:
        """Whether one of the backwards runs wherever the step does: under no further condition,
        under those of which another runs in the other branch, or under one that holds where that
        of another does not.
        """
        guards = self._guards(step.statement)
        missing = [frozenset(self._guards(s) - guards) for s in mine]
        left = [frozenset(self._guards(s) - guards) for s in self._left(step)]
        if always_one(missing, left):
            return True
        lone = [
            one
            for s, extra in zip(mine, missing, strict=True)
            if len(extra) == 1 and (one := self._test(s, *extra)) is not None
        ]
        return any(holds_otherwise(a, b) for a in lone for b in lone)

    def _left(self, step: OptimizerStep) -> Iterator[ast.stmt]:
        """The statements that end a turn before its step."""
        module, loop = self.program.module, self._loop(step.statement)
        end = self.flow.step(step.statement).order
        for one in self.flow.steps[:end]:
            statement = one.statement
            if not isinstance(statement, (*EXITS, ast.Raise)):
                continue
            if not self._inside(statement, loop):
                continue
            if cut_off(module, statement, step.statement):
                yield statement

    def _test(self, statement: ast.stmt, guard: str) -> ast.expr | None:
        """The condition of a guard, where it is that of an `if` whose body holds a statement."""
        above = self.program.module.ancestors(statement)
        tests = (one.test for one in above if isinstance(one, ast.If))
        return next((t for t in tests if guard == f"then {ast.dump(t)}"), None)

    def _check_shared(self, step: OptimizerStep) -> None:
        """Two optimizers that hold the same parameters: each step divides their gradients by the
        scale.
        """
        for other in self.steps:
            if self._divides_before(other, step) and self._in_both(other, step):
                mine, its = map(ast.unparse, (step.optimizer, other.optimizer))
                raise Refusal(
                    "param-in-two-optimizers",
                    step.call,
                    f"`{mine}` holds parameters that `{its}`, stepped in line "
                    f"{other.call.lineno}, holds too: both steps would divide their gradients by "
                    "the scale, so that they all but vanish",
                )

    def _divides_before(
        self, other: OptimizerStep, step: OptimizerStep
    ) -> bool:
        """Whether `other` steps before `step` in one turn, and no gradients are cleared between."""
        end = self.flow.step(step.statement).order
        start = self.flow.step(other.statement).order
        mine, its = map(self._guards, (step.statement, other.statement))
        return (
            other.key != step.key
            and start < end
            and self._loop(other.statement) is self._loop(step.statement)
            and not any(opposite(guard) in its for guard in mine)
            and not any(
                self._header_effect(one.statement) & EventKind.ZERO_GRAD
                for one in self.flow.steps[start + 1 : end]
            )
        )

    def _in_both(self, other: OptimizerStep, step: OptimizerStep) -> bool:
        return in_both(
            *(
                optimized(self.program, one.optimizer, self.scope)
                for one in (other, step)
            )
        )

    def _check_fed(self, step: OptimizerStep) -> None:
        """Of several optimizers, one whose models take part in the loss in some branches alone."""
        several = len({one.key for one in self.steps}) > 1
        given = (
            trained(self.program, step.optimizer, self.scope)
            if several and not self.entered
            else None
        )
        if given is None:
            return
        uses = ParameterUses(self.program, self.scope, given)
        if Feeding(self.scope, self.backwards, uses).may_starve(step.statement):
            raise Refusal(
                "step-without-gradients",
                step.call,
                f"what `{ast.unparse(step.optimizer)}` trains takes part in the loss in some "
                "branches alone, and GradScaler.step does not accept an optimizer without "
                "gradients: step it in those branches",
            )

    def _check_cleared(self, step: OptimizerStep) -> None:
        """`optimizer.zero_grad()` between backward and step leaves nothing for `scaler.step`, which
        raises unless unscale_ has seen the gradients.
        """
        end, start = (
            self.flow.step(step.statement).order,
            self._last_backward(step),
        )
        between = self.flow.steps[start + 1 : end] if start >= 0 else []
        stepped = {s.statement for s in self.steps if s.key == step.key}
        before = itertools.takewhile(
            lambda one: one.statement not in stepped, between
        )
        cleared = [
            s.statement for s in before if self._clears(s.statement, step)
        ]
        if cleared and self.unscale_place(step) is None:
            raise Refusal(
                "step-without-gradients",
                cleared[0],
                "gradients are cleared here before the step, and GradScaler.step does not accept "
                "an optimizer without gradients",
            )

    def _clears(self, statement: ast.stmt, step: OptimizerStep) -> bool:
        """Whether a statement clears the step's gradients on a path that leads to it."""
        if not self._header_effect(statement) & EventKind.ZERO_GRAD:
            return False
        owners = {dotted_name(func.value) for func in clearing(statement)}
        return bool(owners & self._owners(step)) and not cut_off(
            self.program.module, statement, step.statement
        )

    def _check_never_cleared(self, step: OptimizerStep) -> None:
        """Gradients that are cleared before the loop alone are added up over its steps: those that
        a step has unscaled, and the scaled ones of the next backward.
        """
        loop = self._loop(step.statement)
        flow = (one.statement for one in self.flow.steps)
        clears = [
            s for s in flow if self._header_effect(s) & EventKind.ZERO_GRAD
        ]
        if loop is self.scope.node or not clears:
            return
        assert isinstance(loop, LOOPS)
        nodes = (
            node for node, _ in reachable(self.program, [loop], self.scope)
        )
        if not any(
            isinstance(n, ast.Attribute) and n.attr in CLEARING for n in nodes
        ):
            raise Refusal(
                "mixed-gradients",
                step.call,
                f"gradients are cleared in line {clears[0].lineno} and not in the loop: unscaled "
                "ones would be added to scaled ones",
            )

    def _check_swallowed(self, step: OptimizerStep) -> None:
        """An exception between unscale_ and update that a handler swallows leaves the optimizer
        unscaled, and the next unscale_ raises.
        """
        place = self.unscale_place(step)
        if place is None or not self._is_caught(
            place, self._loop(step.statement)
        ):
            return
        start, end = (
            self.flow.step(place).order,
            self.flow.step(step.statement).order,
        )
        for at in self.flow.steps[start:end]:
            calls = [n for root in header(at.statement) for n in shallow(root)]
            for call in (n for n in calls if isinstance(n, ast.Call)):
                self._refuse_raising(call)

    def _refuse_raising(self, call: ast.Call) -> None:
        function = self.program.values.callee(call, self.scope)
        if function is not None and holds(
            function, lambda n: isinstance(n, ast.Raise)
        ):
            raise Refusal(
                "unsupported-shape",
                call,
                f"`{function.name}` may raise here, between unscale_ and update, and the loop goes "
                "on: the next unscale_ would raise, too",
            )

    def _is_caught(self, statement: ast.stmt, loop: ast.AST) -> bool:
        """Whether a handler around a statement lets the loop go on, whatever was raised."""
        below: ast.AST = statement
        for parent in self.program.module.ancestors(statement):
            if isinstance(parent, ast.Try) and below in parent.body:
                if any(not _leaves(handler) for handler in parent.handlers):
                    return True
            if parent is loop:
                return False
            below = parent
        return False


def _leaves(handler: ast.ExceptHandler) -> bool:
    """Whether a handler raises again, or ends the loop, on some path."""
    return holds(
        handler, lambda n: isinstance(n, (ast.Raise, ast.Return, ast.Break))
    )
