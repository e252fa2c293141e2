"""Steps that a helper makes for the loop that calls it: the scaler's `step` stands in the helper,
and `update()` there, too, where the loop makes no other step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.scaler_placement.helpers import reach_step
from amp_migrate.planner.scaler_placement.placement import Wiring
from amp_migrate.planner.steps.step_calls import StepCall
from amp_migrate.planner.steps.step_sequence import Cycle
from amp_migrate.rewrite.edits import Edit


@dataclass(frozen=True, eq=False)
class HelperSteps:
    """Plans the helpers of one stepping scope."""

    program: Program
    wiring: Wiring
    scope: Scope
    scaler: str
    """Its name in the scope."""

    def edits(self, cycle: Cycle) -> Iterator[Edit]:
        """`unscale_`, `step` and `update()` in the helpers. Raises Refusal."""
        read = {
            s.made for s in cycle.steps if cycle.unscale_place(s) is not None
        }
        for helper, steps in _by_helper([s.made for s in cycle.steps]).items():
            yield from self._helper(
                helper, steps, read, updates=updates_inside(cycle)
            )

    def _helper(
        self,
        helper: Scope,
        steps: list[StepCall],
        read: set[StepCall],
        *,
        updates: bool,
    ) -> Iterator[Edit]:
        calls = [step.call for step in steps]
        scaler = reach_step(self.wiring, self.scope, calls, helper, self.scaler)
        inner = [step.inner for step in steps if step.inner is not None]
        cycle = Cycle(
            self.program, helper, [], list(dict.fromkeys(inner)), entered=True
        )
        places = [cycle.unscale_place(s) for s in cycle.steps]
        if any(places) and read & set(steps):
            raise Refusal(
                "gradients-read-twice",
                calls[0],
                f"gradients are read here and in `{helper.qualname}`: unscale_ may run once",
            )
        yield from [*cycle.unscale_edits(scaler), *cycle.step_edits(scaler)]
        if updates and not any(step.inner is not None for step in inner):
            yield from cycle.update_edits(scaler)
        elif not updates:
            self._check_certain(cycle)
        deeper = HelperSteps(self.program, self.wiring, helper, scaler)
        for scope, more in _by_helper(inner).items():
            yield from deeper._helper(scope, more, read, updates=updates)

    def _check_certain(self, cycle: Cycle) -> None:
        """Where the caller updates, the helper must have stepped."""
        for step in cycle.steps:
            if not any(
                step.statement is s for s in cycle.scope.body
            ) or _returns(cycle.scope):
                raise Refusal(
                    "unsupported-shape",
                    step.call,
                    "this step is made only sometimes, and its caller steps another optimizer, "
                    "too: no place is right for update()",
                )


def updates_inside(cycle: Cycle) -> bool:
    """Whether a scope's only step is made by a helper, which then calls `update()` itself."""
    return len(cycle.steps) == 1 and cycle.steps[0].made.inner is not None


def _by_helper(steps: list[StepCall]) -> dict[Scope, list[StepCall]]:
    found: dict[Scope, list[StepCall]] = {}
    for step in steps:
        if step.helper is not None:
            found.setdefault(step.helper, []).append(step)
    return found


def _returns(scope: Scope) -> bool:
    return any(
        isinstance(n, ast.Return) for s in scope.body[:-1] for n in nodes_in(s)
    )
