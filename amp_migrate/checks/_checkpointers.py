"""Checkpointers of libraries that are given an optimizer, and not the scaler that trains beside
it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import optimizer_name
from amp_migrate.torch_facts.checkpointers import ADDERS, CHECKPOINTERS


def checkpointers_without(
    program: Program, scaler_of: Callable[[Program, Scope], str | None]
) -> Iterator[ast.Call]:
    """The calls that make one, where `scaler_of` tells of a scaler in the same scope."""
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.canonical(call.func) not in CHECKPOINTERS:
                continue
            given = {one.arg: one.value for one in call.keywords}
            is_whole = None not in given
            steps = any(
                optimizer_name(name or "")
                or program.effects.is_optimizer(one, scope)
                for name, one in given.items()
            )
            scaler = scaler_of(program, scope) if steps and is_whole else None
            if scaler is None or _is_added(program):
                continue
            if not any(dotted_name(one) == scaler for one in given.values()):
                yield call


def _is_added(program: Program) -> bool:
    """Whether anything is handed to a checkpointer later."""
    return bool(ADDERS & program.module.identifiers)
