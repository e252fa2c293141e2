"""Gradients that a helper reads or clips behind its backward, while its caller steps on them: they
would carry the scaler's factor, and nothing there unscales them.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.loop import Loop, Stepper
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.steps.unscaling import Unscaling


class _Below(Unscaling):
    """The gradient side of a helper without a step."""

    def reader(self) -> ast.stmt | None:
        """The first statement behind a backward that reads gradients."""
        is_late = False
        for one in self.flow.steps:
            if is_late and self._reads(one.statement):
                return one.statement
            effect = self._header_effect(one.statement)
            is_late = is_late or bool(effect & EventKind.BACKWARD)
        return None


def refuse_read_below(program: Program, loop: Loop, stepper: Stepper) -> None:
    """Raise Refusal where a scope between a step and its backward reads gradients."""
    stepping = [one.scope for one in loop.steppers]
    for scope in stepper.chain:
        reader = None if scope in stepping else _reader(program, scope)
        if reader is not None:
            raise Refusal(
                "grad-read-before-unscale",
                reader,
                "gradients are read or clipped here, before the caller "
                f"`{stepper.scope.qualname}` steps on them, when they carry "
                "the scaler's factor (65,536 at first): do it beside the step",
            )


def _reader(program: Program, scope: Scope) -> ast.stmt | None:
    return _Below(program, scope, [], []).reader()
