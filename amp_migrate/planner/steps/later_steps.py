"""What a step leaves to a later one of its turn.

GradScaler divides gradients by the scale where they are, and what nothing clears is divided again.
"""

from __future__ import annotations

import ast

from amp_migrate.model.steps.held_parameters import shares, trained
from amp_migrate.model.syntax.module import shallow
from amp_migrate.planner.half_safety.reach import reachable
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.loss_flow import header
from amp_migrate.planner.steps.turn import OptimizerStep
from amp_migrate.planner.steps.turn_ends import cut_off
from amp_migrate.planner.steps.unscaling import Unscaling

CLEARING = ("zero_grad", "grad")
"""What stands wherever gradients are cleared: a call, or `p.grad = None`."""


class LaterSteps(Unscaling):
    """Asks it of two steps of one optimizer."""

    def _check_used(self, step: OptimizerStep) -> None:
        """Two steps after one backward: the first divides its gradients by the scale, and the
        second would do so again.
        """
        for other in self.steps:
            if self._uses_before(other, step):
                raise Refusal(
                    "double-optimizer-step",
                    step.call,
                    "no backward runs between this step and that in line "
                    f"{other.call.lineno}, by which GradScaler divides the gradients: it would "
                    "divide them again, so that they all but vanish",
                )

    def _uses_before(self, other: OptimizerStep, step: OptimizerStep) -> bool:
        """Whether `other` runs between the backward of a turn and `step` in turns that hold both;
        of two conditions that have nothing in common, one may exclude the other.
        """
        start = self._last_backward(step)
        order = self.flow.step(other.statement).order
        return 0 <= start < order and self._precedes(other, step)

    def _precedes(self, other: OptimizerStep, step: OptimizerStep) -> bool:
        """The same, whether or not a backward runs between them."""
        start, end = (
            self.flow.step(one.statement).order for one in (other, step)
        )
        module = self.program.module
        mine, its = map(self._guards, (step.statement, other.statement))
        return (
            other.key == step.key
            and start < end
            and self._loop(other.statement) is self._loop(step.statement)
            and (mine <= its or its <= mine)
            and not cut_off(module, other.statement, step.statement)
        )

    def _check_left(self, step: OptimizerStep) -> None:
        """Two steps with a backward between them, where nothing clears what the first left."""
        for other in self.steps:
            if self._precedes(other, step) and not self._is_cleared_between(
                other, step
            ):
                raise Refusal(
                    "mixed-gradients",
                    step.call,
                    f"the step in line {other.call.lineno} leaves gradients behind, divided by the "
                    "scale, and nothing clears them before this one: scaled ones would be added "
                    "to them, and both divided again",
                )

    def _is_cleared_between(
        self, other: OptimizerStep, step: OptimizerStep
    ) -> bool:
        """Whether something between two steps clears gradients, and not those of others alone."""
        start, end = (
            self.flow.step(one.statement).order for one in (other, step)
        )
        return any(
            self._may_clear(one.statement)
            and not self._clears_others(one.statement, step)
            for one in self.flow.steps[start:end]
        )

    def _may_clear(self, statement: ast.stmt) -> bool:
        """Whether a statement, or what it calls, clears gradients, or sets them."""
        nodes = reachable(self.program, [statement], self.scope)
        return any(
            isinstance(node, ast.Attribute) and node.attr in CLEARING
            for node, _ in nodes
        )

    def _clears_others(self, statement: ast.stmt, step: OptimizerStep) -> bool:
        """Whether all that a statement clears are gradients of optimizers of other models."""
        mine = trained(self.program, step.optimizer, self.scope)
        owners = [func.value for func in clearing(statement)]
        theirs = [trained(self.program, one, self.scope) for one in owners]
        return bool(owners) and not any(
            mine is None
            or its is None
            or any(shares(a, b) for a in mine for b in its)
            for its in theirs
        )


def clearing(statement: ast.stmt) -> list[ast.Attribute]:
    """`optimizer.zero_grad` of the calls that a statement evaluates."""
    calls = [
        node.func
        for root in header(statement)
        for node in shallow(root)
        if isinstance(node, ast.Call)
    ]
    funcs = [one for one in calls if isinstance(one, ast.Attribute)]
    return [one for one in funcs if one.attr == "zero_grad"]
