"""Guards against a bad loss that leave the backward out, but not the scaler's step: what the step
finds then is what the last batch left there, or nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.gradients.effects import last_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import Trait
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.torch_facts.gradients import ASKS_FINITE

_LEAVES = Trait.JUMP | Trait.END


def unfed_steps(program: Program, *, cleared: bool) -> Iterator[ast.Call]:
    """Steps of the scaler that run where a guard left the backward out; `cleared` says whether the
    gradients of the batch before were thrown away.
    """
    if not any(word in program.module.text for word in ASKS_FINITE):
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.events.what(call, scope) is not EventKind.SCALER_STEP:
                continue
            guard = _guard(program, call, scope)
            if guard is not None and cleared == _clears(program, guard, scope):
                yield call


def _guard(program: Program, step: ast.Call, scope: Scope) -> ast.If | None:
    """The guard before a step, in its block, which holds each backward of the function."""
    statement = program.module.statement_of(step)
    block = program.module.block_of(statement)
    at = next(i for i, one in enumerate(block) if one is statement)
    guards = [one for one in block[:at] if isinstance(one, ast.If)]
    backwards = [
        one
        for one in scope.calls
        if program.events.what(one, scope) is EventKind.BACKWARD
    ]
    for guard in guards:
        inside = {id(one) for one in calls_in(guard)}
        held = bool(backwards) and all(id(one) in inside for one in backwards)
        if held and _asks(guard.test) and _goes_on(program, guard, scope):
            return guard
    return None


def _asks(
    test: ast.expr,
) -> bool:
    """`not torch.isnan(loss)`, `math.isfinite(loss.item())`"""
    return any(last_name(call.func) in ASKS_FINITE for call in calls_in(test))


def _goes_on(
    program: Program,
    guard: ast.If,
    scope: Scope,
) -> bool:
    """Whether an arm without a backward leads on to what stands behind the guard."""
    return any(
        not _has_backward(program, arm, scope)
        and not program.events.of_block(arm, scope) & _LEAVES
        for arm in (guard.body, guard.orelse)
    )


def _has_backward(
    program: Program,
    arm: list[ast.stmt],
    scope: Scope,
) -> bool:
    return any(
        program.events.what(call, scope) is EventKind.BACKWARD
        or program.values.callee(call, scope) is not None
        for statement in arm
        for call in calls_in(statement)
    )


def _clears(
    program: Program,
    guard: ast.If,
    scope: Scope,
) -> bool:
    """Whether gradients are thrown away outside of the guard."""
    inside = {id(one) for one in calls_in(guard)}
    return any(
        id(call) not in inside
        and program.events.what(call, scope) is EventKind.ZERO_GRAD
        for call in scope.calls
    )
