"""Backward, unscale_, step and update of one scope (amp-semantics section 3), as edits."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import LOOPS, blocks
from amp_migrate.planner.steps.turn import OptimizerStep
from amp_migrate.planner.steps.turn_ends import EXITS
from amp_migrate.planner.steps.updates import Updates
from amp_migrate.rewrite.edits import (
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceExpression,
    Template,
)


class Cycle(Updates):
    """Plans the gradient side of one scope."""

    def step_edits(self, scaler: str) -> list[Edit]:
        """`X.step()` becomes `scaler.step(X)`."""
        span = self.program.module.span
        own = [s for s in self.steps if s.made.inner is None]
        return [
            ReplaceExpression(span(s.call), self._with_arguments(s, scaler))
            for s in own
        ]

    def _with_arguments(self, step: OptimizerStep, scaler: str) -> Template:
        """`opt.step(scale)`, whose own step takes it: `scaler.step(opt, scale)`."""
        plain = self._named(step, f"{scaler}.step")
        keywords = [k for k in step.call.keywords if not _is_no_closure(k)]
        named = [f"{k.arg}=" if k.arg else "**" for k in keywords]
        given = [*step.call.args, *(k.value for k in keywords)]
        if step.made.inner is not None or not given:
            return plain
        before = ["" for _ in step.call.args] + named
        text = "".join(
            f", {name}${place}" for place, name in enumerate(before, 1)
        )
        holes = map(self.program.module.span, given)
        return Template(
            f"{plain.text.removesuffix(')')}{text})", (*plain.parts, *holes)
        )

    def update_edits(self, scaler: str) -> list[Edit]:
        """`scaler.update()` where each iteration has made its last step. Raises Refusal where no
        place is right.
        """
        update = Template(f"{scaler}.update()")
        span = self.program.module.span
        anchors = self.update_anchors()
        early = [InsertBefore(span(e), (update,)) for e in self.exits(anchors)]
        return [*early, *(InsertAfter(span(a), (update,)) for a in anchors)]

    def exits(self, anchors: list[ast.stmt]) -> list[ast.stmt]:
        """`continue`, `break` and `return` between unscale_ (or an earlier step) and update: each
        needs an update of its own.
        """
        found: dict[int, ast.stmt] = {}
        for anchor in anchors:
            for place in self._unscale_places(anchor):
                start = self._in_block_of(place, anchor)
                top = self._in_block_of(anchor, start)
                block = self.program.module.block_of(start)
                first, last = (
                    next(i for i, s in enumerate(block) if s is x)
                    for x in (start, top)
                )
                for statement in (
                    block[first:last]
                    if top is anchor
                    else block[first : last + 1]
                ):
                    found.update(
                        (id(e), e)
                        for e in self._exits_in(statement)
                        if not self._after_update(e, anchor, top)
                    )
        return list(found.values())

    def _after_update(
        self, leave: ast.stmt, anchor: ast.stmt, top: ast.stmt
    ) -> bool:
        return (
            top is not anchor
            and leave.lineno > anchor.lineno
            and self._guards(anchor) <= self._guards(leave)
        )

    def _exits_in(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements that leave the loop body (or function) around `statement`."""
        if isinstance(statement, EXITS):
            return [statement]
        if isinstance(
            statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            return []
        inner = [
            e
            for block in blocks(statement)
            for s in block
            for e in self._exits_in(s)
        ]
        return (
            [e for e in inner if isinstance(e, ast.Return)]
            if isinstance(statement, LOOPS)
            else inner
        )


__all__ = ["Cycle", "OptimizerStep"]


def _is_no_closure(given: ast.keyword) -> bool:
    """`closure=None`, for which a scaler raises, and which an optimizer need not be told."""
    return (
        given.arg == "closure"
        and isinstance(given.value, ast.Constant)
        and given.value.value is None
    )
