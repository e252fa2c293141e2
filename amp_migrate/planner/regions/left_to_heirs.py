"""Methods that a base class leaves to its heirs: a call of one runs what any heir makes of it."""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope, is_abstract
from amp_migrate.planner.loop import Loop
from amp_migrate.planner.scaler_placement.callers import refuse_unlinked
from amp_migrate.project.module_graph import Project


def refuse_unlinked_heirs(
    program: Program, project: Project, loop: Loop
) -> None:
    """Raise Refusal where a step takes the gradients of a method that is left to heirs, and files
    that are no part of the program may define it, too.
    """
    for stepper in loop.steppers if project.imports else ():
        for call in stepper.backwards:
            left = _left(program, call, stepper.scope)
            owner = program.scope(left).owner if left is not None else None
            if left is None or owner is None:
                continue
            assert isinstance(owner.node, ast.ClassDef)
            for cls in (owner.node, *program.graph.heirs(owner.node)):
                refuse_unlinked(program, project, cls, left.name)


def _left(program: Program, call: ast.Call, scope: Scope) -> Function | None:
    """The method that a call names, where it is left to heirs."""
    function = program.values.callee(call, scope)
    is_left = function is not None and is_abstract(function)
    return function if is_left else None
