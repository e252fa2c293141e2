"""Steps beside those of the optimizers, of something that nothing in sight shows: a second
optimizer would step on scaled gradients there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.variables import names_module
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.model.values.kinds import scheduler_name
from amp_migrate.outcome import Note
from amp_migrate.planner.loop import Loop


def unknown_steps(
    program: Program, loop: Loop
) -> Iterator[tuple[Module, Note]]:
    """A note for each `x.step()` in the bodies that step a loop's optimizers."""
    for stepper in loop.steppers:
        known = {step.call for step in stepper.steps}
        for call in stepper.scope.calls:
            if call not in known and _is_unknown(program, call, stepper.scope):
                assert isinstance(call.func, ast.Attribute)
                name = ast.unparse(call.func.value)
                message = (
                    f"nothing in sight shows what `{name}` is: if it is an optimizer, its step "
                    "needs the scaler, too"
                )
                note = Note(call.lineno, call.col_offset + 1, message)
                yield stepper.scope.module, note


def _is_unknown(program: Program, call: ast.Call, scope: Scope) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "step":
        return False
    name = dotted_name(func.value)
    if name is None or call.args or call.keywords:
        return False
    if scheduler_name(name.rpartition(".")[2]) or names_module(name, scope):
        return False
    if program.values.of(func.value, scope):
        return False
    return program.values.callee(call, scope) is None
