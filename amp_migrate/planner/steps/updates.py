"""Where `update()` goes: after the last step of each turn, and once on every path."""

from __future__ import annotations

import ast

from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, blocks
from amp_migrate.planner.gradients.at_step import GradientsAtStep
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.steps.turn import OptimizerStep
from amp_migrate.planner.steps.turn_ends import EXITS


class Updates(GradientsAtStep):
    """Places of `update` in one scope."""

    def update_anchors(self) -> list[ast.stmt]:
        """The statements after which `update()` goes."""
        by_loop: dict[int, list[OptimizerStep]] = {}
        for step in self.steps:
            by_loop.setdefault(id(self._loop(step.statement)), []).append(step)
        self._check_trailing(by_loop)
        self.check_gradients()
        anchors = {
            id(a): a
            for group in by_loop.values()
            for a in map(self._with_unscale, self._anchors(group))
        }
        if len(anchors) > 1:
            self._check_pending(list(anchors.values()))
        return list(anchors.values())

    def _with_unscale(self, anchor: ast.stmt) -> ast.stmt:
        """Update follows unscale_ on every path: after the conditional step that unscale_ stands
        before.
        """
        for place in self._unscale_places(anchor):
            if not self._guards(anchor) <= self._guards(place):
                return self._in_block_of(anchor, place)
        return anchor

    def _unscale_places(self, anchor: ast.stmt) -> list[ast.stmt]:
        places = [
            self.unscale_place(s)
            for s in self.steps
            if self._inside(s.statement, anchor)
        ]
        return [p for p in places if p is not None]

    def _anchors(self, group: list[OptimizerStep]) -> list[ast.stmt]:
        """Where update goes for the steps of one loop body (or of one branch of it)."""
        if len(group) == 1:
            return [self._out_of_optimizer_loop(group[0].statement)]
        block, children = self._shared_block(group)
        if len(children) == 1:
            return [
                a
                for part in self._branches(children[0], group)
                for a in self._anchors(part)
            ]
        certain = any(self._certain(child, group) for child in children)
        once = self._at_most_once(children, group)
        left_early = self._leaves_between(block, children)
        if certain and once and not left_early:
            return [children[-1]]
        return [
            a
            for unit in self._units(block, children)
            for a in self._unit_anchors(unit, group)
        ]

    def _units(
        self, block: list[ast.stmt], children: list[ast.stmt]
    ) -> list[list[ast.stmt]]:
        """Steps in a row after one backward belong together: no update may come between them."""
        units: list[list[ast.stmt]] = []
        for child in children:
            place = next(i for i, s in enumerate(block) if s is child)
            start = (
                next(
                    i
                    for i, s in enumerate(block)
                    if units and s is units[-1][-1]
                )
                if units
                else place
            )
            between = block[start + 1 : place + 1]
            fresh = any(
                self.program.effects.of_statement(s, self.scope)
                & EventKind.BACKWARD
                for s in between
            )
            if units and not fresh:
                units[-1].append(child)
            else:
                units.append([child])
        return units

    def _unit_anchors(
        self, unit: list[ast.stmt], group: list[OptimizerStep]
    ) -> list[ast.stmt]:
        steps = [
            s
            for s in group
            for child in unit
            if self._inside(s.statement, child)
        ]
        plain = all(any(s.statement is child for s in steps) for child in unit)
        if plain and len({s.key for s in steps}) == len(steps):
            return [unit[-1]]
        return [
            a
            for child in unit
            for a in self._anchors(
                [s for s in group if self._inside(s.statement, child)]
            )
        ]

    def _out_of_optimizer_loop(self, statement: ast.stmt) -> ast.stmt:
        """`for optimizer in optimizers: optimizer.step()` steps as a whole."""
        top = statement
        for parent in self.program.module.ancestors(statement):
            if not isinstance(parent, (*LOOPS, ast.If)) or parent is self._loop(
                statement
            ):
                break
            if isinstance(parent, LOOPS):
                assert isinstance(parent, ast.stmt)
                top = parent
        return top

    def _shared_block(
        self, group: list[OptimizerStep]
    ) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """The deepest block that holds all steps of a group, and its statements that do."""
        module = self.program.module
        statement = group[0].statement
        while True:
            block = module.block_of(statement)
            children = [
                s
                for s in block
                if any(self._inside(x.statement, s) for x in group)
            ]
            if sum(
                self._inside(x.statement, c) for x in group for c in children
            ) == len(group):
                return block, children
            parent = module.parents[statement]
            assert isinstance(
                parent, (ast.stmt, ast.ExceptHandler, ast.match_case)
            )
            statement = (
                parent
                if isinstance(parent, ast.stmt)
                else module.statement_of(parent)
            )

    def _branches(
        self, compound: ast.stmt, group: list[OptimizerStep]
    ) -> list[list[OptimizerStep]]:
        """The steps of each branch of one compound statement."""
        parts = [
            [
                s
                for s in group
                if any(self._inside(s.statement, x) for x in block)
            ]
            for block in blocks(compound)
        ]
        return [p for p in parts if p]

    def _certain(self, child: ast.stmt, group: list[OptimizerStep]) -> bool:
        """Whether running `child` always makes a step of the group."""
        if any(s.statement is child for s in group):
            return True
        if isinstance(child, (ast.With, ast.AsyncWith)):
            return any(self._certain(s, group) for s in child.body)
        if isinstance(child, ast.If) and child.orelse:
            return all(
                any(self._certain(s, group) for s in block)
                for block in (child.body, child.orelse)
            )
        return False

    def _at_most_once(
        self, children: list[ast.stmt], group: list[OptimizerStep]
    ) -> bool:
        """Whether no optimizer steps in two of the children, or twice inside one."""
        seen: set[str] = set()
        for child in children:
            keys = [s.key for s in group if self._inside(s.statement, child)]
            if isinstance(child, ast.If):
                keys = list(dict.fromkeys(keys))  # exclusive branches
            if len(set(keys)) < len(keys) or seen & set(keys):
                return False
            seen |= set(keys)
        return True

    def _leaves_between(
        self, block: list[ast.stmt], children: list[ast.stmt]
    ) -> bool:
        """Whether the iteration can end between the first step and the place of update."""
        first, last = (
            next(i for i, s in enumerate(block) if s is c)
            for c in (children[0], children[-1])
        )
        return any(self._leaves(s) for s in block[first : last + 1])

    def _leaves(self, statement: ast.stmt) -> bool:
        """A `continue`, `break` or `return` that leaves the loop body which holds `statement`."""
        if isinstance(statement, EXITS):
            return True
        for block in blocks(statement):
            for inner in block:
                own = isinstance(statement, LOOPS) and not isinstance(
                    inner, ast.Return
                )
                if not own and self._leaves(inner):
                    return True
        return False

    def _check_trailing(self, by_loop: dict[int, list[OptimizerStep]]) -> None:
        """A step after the loop that already steps the same optimizer may find no gradients: then
        `scaler.step` raises.
        """
        for group in by_loop.values():
            for step in group:
                inner = [
                    s
                    for s in self.steps
                    if s.key == step.key
                    and s is not step
                    and self._deeper(s, step)
                ]
                no_backward = self._last_backward(step) <= max(
                    (self._last_backward(s) for s in inner), default=-2
                )
                if inner and no_backward and not self._guards(step.statement):
                    raise Refusal(
                        "step-without-gradients",
                        step.call,
                        (
                            "this step after the loop may find no gradients, which GradScaler.step "
                            "does not accept: make it conditional"
                        ),
                    )

    def _check_pending(self, anchors: list[ast.stmt]) -> None:
        """An update between a backward and the step that uses its gradients would mix two scales
        without an error.
        """
        for step in self.steps:
            order = self.flow.step(step.statement).order
            last = self._last_backward(step)
            others = [
                a
                for a in anchors
                if not any(
                    s.key == step.key and self._inside(s.statement, a)
                    for s in self.steps
                )
            ]
            between = [
                e for e in map(self._last_order, others) if last < e < order
            ]
            if between and last >= 0 and not self._exclusive(step, between):
                raise Refusal(
                    "unsupported-shape",
                    step.call,
                    (
                        "another optimizer steps between this optimizer's backward and its step, "
                        "and "
                        "would change the scale in between"
                    ),
                )

    def _exclusive(self, step: OptimizerStep, orders: list[int]) -> bool:
        """Whether the updates at `orders` stand in branches that exclude the step."""
        module = self.program.module
        mine = {id(a): a for a in module.ancestors(step.statement)}
        for order in orders:
            other = self.flow.steps[order].statement
            shared = next(
                (a for a in module.ancestors(other) if id(a) in mine), None
            )
            if not isinstance(shared, ast.If):
                return False
        return True

    def _last_order(self, statement: ast.stmt) -> int:
        return max(
            s.order
            for s in self.flow.steps
            if self._inside(s.statement, statement)
        )
