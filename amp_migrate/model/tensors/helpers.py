"""What helpers make of half precision that they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Function, returned
from amp_migrate.model.tensors.fact import FLOAT16
from amp_migrate.model.tensors.inference import Inference

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def keeps_half(program: Program, function: Function) -> bool:
    """Whether a function that is called outside of autocast may give back half precision, where
    all that it gets is half.
    """
    return program.remembered(
        (keeps_half, function), lambda: _keeps(program, function)
    )


def _keeps(program: Program, function: Function) -> bool:
    scope = program.scope(function)
    inference = Inference(program, lambda _: None, lambda _: None)
    for name, bindings in scope.bindings.items():
        for one in bindings:
            if one.how == "parameter" and name != scope.self_name:
                inference.assume(one, FLOAT16)
    facts = [inference.of(one, scope) for one in returned(function)]
    return not facts or any(one.may_be_half or one.container for one in facts)
