"""Where `unscale_` goes: before the first reader of an optimizer's gradients."""

from __future__ import annotations

import ast
from functools import cached_property

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS
from amp_migrate.model.syntax.queries import names_set, nodes_in
from amp_migrate.model.values.absent_values import may_be_none
from amp_migrate.planner.gradients.halfway import Halfway
from amp_migrate.planner.optimizers.loops_over_optimizers import once_more
from amp_migrate.planner.optimizers.passed_on import passed_on
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.loss_flow import header
from amp_migrate.planner.steps.conditional_helpers import (
    refuse_conditional_helper,
)
from amp_migrate.planner.steps.turn import OptimizerStep
from amp_migrate.rewrite.edits import Edit, InsertBefore, Template


class Unscaling(Halfway):
    """Places of `unscale_` in one scope."""

    def _for_all(
        self, step: OptimizerStep, place: ast.stmt, text: Template
    ) -> tuple[Template, ...]:
        """Inside `for optimizer in optimizers: optimizer.step()` the name means each of them;
        before it they are gone through once more; around `[o.step() for o in optimizers]` it means
        none.
        """
        loop = self._optimizer_loop(step)
        if loop is None or self._inside(place, loop):
            return (text,)
        again = once_more(self.program, self.flow, loop, step.statement, place)
        if again is not None:
            return (Template(f"for {again}:\n    {text.text}", text.parts),)
        raise Refusal(
            "gradients-read-twice",
            place,
            (
                "gradients of several optimizers are read together: unscale_ is needed for each of "
                "them before this"
            ),
        )

    def _optimizer_loop(self, step: OptimizerStep) -> ast.AST | None:
        """The loop over optimizers, or the comprehension, that binds the step's optimizer, where
        backward is outside of it.
        """
        name = (dotted_name(step.optimizer) or "").partition(".")[0]
        for parent in self.program.module.ancestors(step.call):
            if name in names_set(parent):
                holds = (
                    self.program.effects.of_statement(parent, self.scope)
                    & EventKind.BACKWARD
                )
                return None if holds else parent
        return None

    def unscale_place(self, step: OptimizerStep) -> ast.stmt | None:
        """The statement that `unscale_` of a step's optimizer goes before, if any does; asked by
        each of the checks, and answered once.
        """
        if step not in self._unscaled:
            self._unscaled[step] = self._unscale_place(step)
        return self._unscaled[step]

    @cached_property
    def _unscaled(self) -> dict[OptimizerStep, ast.stmt | None]:
        return {}

    def _unscale_place(self, step: OptimizerStep) -> ast.stmt | None:
        readers = [s for s in self._between(step) if self._reads(s)]
        readers = [r for r in readers if self._of_optimizer(r, step)]
        if not readers:
            return None
        guards = self._guards(step.statement)
        tops = [self._out_of_parameter_loops(r, step) for r in readers]
        first = tops[0]
        refuse_conditional_helper(self.program, step.made, first)
        if not guards <= self._guards(first):
            backward = self.flow.steps[self._last_backward(step)].statement
            if self._cleared_each_turn(step, self._guards(backward)):
                # The step alone is conditional: update() comes with unscale_, for each backward.
                return self._in_block_of(first, backward)
            if self._cleared_each_turn(step, self._guards(first)):
                return first
            raise Refusal(
                "gradients-read-twice",
                first,
                (
                    "gradients are read (or clipped) on every micro-batch but stepped only on "
                    "some: "
                    "unscale_ may run once per step"
                ),
            )
        conditional = self._guards(first) - guards
        if (
            not conditional
            or len({id(t) for t in tops}) == 1
            or all(conditional <= self._guards(t) for t in tops)
        ):
            return first
        return self._in_block_of(first, step.statement)

    def _cleared_each_turn(self, step: OptimizerStep, guards: set[str]) -> bool:
        """Whether gradients are cleared wherever they are read, so that nothing accumulates over
        turns.
        """
        loop = self._loop(step.statement)
        for statement in self.flow.steps:
            inside = loop is self.scope.node or any(
                a is loop
                for a in self.program.module.ancestors(statement.statement)
            )
            if (
                inside
                and self._header_effect(statement.statement)
                & EventKind.ZERO_GRAD
                and self._guards(statement.statement) <= guards
            ):
                return True
        return False

    def _between(self, step: OptimizerStep) -> list[ast.stmt]:
        """Statements after the last backward before a step, up to the step."""
        end, start = (
            self.flow.step(step.statement).order,
            self._last_backward(step),
        )
        if start < 0 and not self.entered:
            # the backward comes later in the loop body: gradients are read at the top of the next
            # turn
            return []
        self._refuse_read_halfway(start)
        beside = self._beside(start, step)
        found = [s.statement for s in self.flow.steps[start + 1 : end]]
        found = [*beside, *found]
        found = [s for s in found if not self._of_another(s, step)]
        roots = (root for statement in found for root in header(statement))
        passed = passed_on(self.program, self.scope, roots)
        if passed is not None:
            raise passed
        if any(self._writes(s) for s in found):
            culprit = next(s for s in found if self._writes(s))
            raise Refusal(
                "gradient-mutated",
                culprit,
                (
                    "gradients are rewritten here between backward and step, by more than clipping "
                    "or scaling"
                ),
            )
        return found

    def _of_another(self, statement: ast.stmt, step: OptimizerStep) -> bool:
        return self._of_another_branch(statement, step) or self._of_inner_step(
            statement, step
        )

    def _of_another_branch(
        self, statement: ast.stmt, step: OptimizerStep
    ) -> bool:
        """Whether it never runs before this step, and another step of the optimizer answers for
        it: `if clipped: clip; step` beside `else: step`.
        """
        branch = self._branch_without(statement, step)
        order = self.flow.step(statement).order
        return any(
            one.key == step.key
            and order < self.flow.step(one.statement).order
            and any(self._inside(one.statement, inner) for inner in branch)
            for one in self.steps
        )

    def _branch_without(
        self, statement: ast.stmt, step: OptimizerStep
    ) -> list[ast.stmt]:
        """The branch that holds a statement, of an `if` that runs once after the backward and
        whose other branch holds the step; else nothing.
        """
        for parent in self.program.module.ancestors(statement):
            if parent is self.scope.node:
                break
            if not isinstance(parent, ast.If):
                continue
            for mine, other in (
                (parent.body, parent.orelse),
                (parent.orelse, parent.body),
            ):
                if any(self._inside(statement, one) for one in mine) and any(
                    self._inside(step.statement, one) for one in other
                ):
                    return [] if self._repeats(parent, step) else mine
        return []

    def _repeats(self, branching: ast.If, step: OptimizerStep) -> bool:
        """Whether a loop around an `if` runs it more than once after the step's backward."""
        last = self._last_backward(step)
        return last < 0 or any(
            isinstance(loop, LOOPS)
            and not self._inside(self.flow.steps[last].statement, loop)
            for loop in self.program.module.ancestors(branching)
        )

    def _of_optimizer(self, reader: ast.stmt, step: OptimizerStep) -> bool:
        """Whether the gradients read belong to the step's optimizer, where several step after one
        backward.
        """
        rivals = self._rivals[self._last_backward(step)]
        if len(rivals) == 1:
            return True
        read = self._parameter_owners(reader)
        matches = {
            s.key
            for s in self.steps
            if s.key in rivals and self._owners(s) & read
        }
        return not matches or step.key in matches

    @cached_property
    def _rivals(self) -> dict[int, set[str]]:
        """The optimizers that step after each backward."""
        found: dict[int, set[str]] = {}
        for step in self.steps:
            found.setdefault(self._last_backward(step), set()).add(step.key)
        return found

    def _owners(self, step: OptimizerStep) -> set[str]:
        """The models whose parameters an optimizer was given, and the optimizer itself."""
        origin = self.program.values.of(step.optimizer, self.scope).origin
        own = {dotted_name(step.optimizer) or ""}
        return own | (
            _owners_in(origin) if isinstance(origin, ast.Call) else set()
        )

    def _parameter_owners(self, reader: ast.stmt) -> set[str]:
        """Whose parameters a statement goes through, with the loops directly around it."""
        found: set[str] = set()
        here: ast.AST = reader
        while isinstance(here, ast.stmt):
            for root in header(here):
                found |= _owners_in(root)
            here = self.program.module.parents[here]
            if not isinstance(here, LOOPS):
                break
        return found

    def _out_of_parameter_loops(
        self, reader: ast.stmt, step: OptimizerStep
    ) -> ast.stmt:
        """`for p in parameters: ... p.grad ...` is one reader; conditions inside it do
        not count.
        """
        top = reader
        for parent in self.program.module.ancestors(reader):
            if isinstance(parent, LOOPS):
                if self._holds_step_and_backward(parent):
                    break
                assert isinstance(parent, ast.stmt)
                top = parent
            if not isinstance(parent, ast.stmt) or parent is self.scope.node:
                break
        return top

    def unscale_edits(self, scaler: str) -> list[Edit]:
        """`scaler.unscale_(X)` before the first reader of X's gradients. Raises Refusal for
        gradients rewritten by hand.
        """
        edits: dict[Edit, None] = {}
        span = self.program.module.span
        for step in self.steps:
            place = self.unscale_place(step)
            if place is not None:
                text = self._unscale(step, place, scaler)
                edits[
                    InsertBefore(span(place), self._for_all(step, place, text))
                ] = None
        return list(edits)

    def _unscale(
        self, step: OptimizerStep, place: ast.stmt, scaler: str
    ) -> Template:
        """An optimizer that is stepped under a condition may not be there before it."""
        text = self._named(step, f"{scaler}.unscale_")
        is_sure = self._guards(step.statement) <= self._guards(place)
        if is_sure or not may_be_none(self.program, step.optimizer):
            return text
        asked = f"if {ast.unparse(step.optimizer)} is not None:"
        return Template(f"{asked}\n    {text.text}", text.parts)

    def _named(self, step: OptimizerStep, method: str) -> Template:
        """A call of a scaler's method with the optimizer, as written where it is written."""
        if step.made.inner is not None:
            return Template(f"{method}({ast.unparse(step.optimizer)})")
        return Template(
            f"{method}($0)", (self.program.module.span(step.optimizer),)
        )


def _owners_in(node: ast.AST) -> set[str]:
    """`net`, `self.net` of `net.parameters()` and the like; plain names given to calls."""
    found: set[str] = set()
    for inner in nodes_in(node):
        if isinstance(inner, ast.Attribute) and inner.attr in (
            "parameters",
            "named_parameters",
            "param_groups",
        ):
            found.add(dotted_name(inner.value) or "")
        elif isinstance(inner, ast.Call):
            found |= {
                d for a in inner.args if (d := dotted_name(a)) is not None
            }
    return found - {""}
