"""Moving the tail of an autocast region behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import (
    Region,
    is_other_arm,
    region_of,
    region_of_callers,
    regions,
)
from amp_migrate.checks.loop_inside_autocast import spanned_step
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.rewrite.edits import Edit, InsertAfter, Template

_TAIL = (
    EventKind.BACKWARD,
    EventKind.SCALER_STEP,
    EventKind.BARE_STEP,
    EventKind.UNSCALE,
    EventKind.UPDATE,
    EventKind.ZERO_GRAD,
    EventKind.CLIP,
)
_TRAINS = (EventKind.BACKWARD, EventKind.SCALER_STEP, EventKind.BARE_STEP)


def tail_calls(
    program: Program, kinds: frozenset[EventKind]
) -> Iterator[tuple[ast.Call, Region]]:
    """Calls of these kinds in enabled regions, of their own function or of all that call it, but
    for those that hold a whole loop.
    """
    if not regions(program):
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.events.what(call, scope) not in kinds:
                continue
            region = region_of(program, call)
            if region is None and not is_other_arm(program, call):
                region = region_of_callers(program, scope)
            if (
                region
                and not region.off_at(call)
                and spanned_step(program, region) is None
            ):
                yield call, region


def belongs_behind(
    program: Program, call: ast.Call, region: Region, rule: Rule, message: str
) -> Finding:
    """The finding that `call` should stand behind `region`, with the fix that moves it."""
    is_own = region_of(program, call) is region
    edits = move_tail(program, region) if is_own else None
    moved = "move backward, step and update after the autocast block"
    fix = Fix("safe", moved, edits) if edits else None
    related = [(region.place, "the autocast block")]
    return finding_at(program, call, rule, message, related=related, fix=fix)


def move_tail(
    program: Program,
    region: Region,
) -> tuple[Edit, ...] | None:
    """Backward, step and update go behind the `with`, where they end its block; None where
    something else follows them.
    """
    if (
        not isinstance(region.node, ast.With)
        or program.module.statement_of(region.call) is not region.node
    ):
        return None
    code = Code(program, region.node.body[-1])
    tail: list[ast.stmt] = []
    for statement in reversed(region.node.body):
        if not _is_of_tail(code, statement):
            break
        tail.insert(0, statement)
    before = region.node.body[: len(region.node.body) - len(tail)]
    if not before or any(_trains(program, one) for one in before):
        return None
    while tail and code.is_event(tail[0], EventKind.ZERO_GRAD):
        del tail[0]  # stays where it was
    if not tail:
        return None
    moved = tuple(Template("$0", (code.span(s),)) for s in tail)
    return (
        *(code.remove(s) for s in tail),
        InsertAfter(code.span(region.node), moved),
    )


def _is_of_tail(code: Code, statement: ast.stmt) -> bool:
    """A call of the tail by itself, or a condition over nothing else: `if (i + 1) % 4 == 0: ...`"""
    if isinstance(statement, ast.If):
        tests = {type(node) for node in nodes_in(statement.test)}
        inner = [*statement.body, *statement.orelse]
        plain = tests.isdisjoint((ast.NamedExpr, ast.Await, ast.Yield))
        return plain and all(_is_of_tail(code, one) for one in inner)
    return any(code.is_event(statement, what) for what in _TAIL)


def _trains(program: Program, statement: ast.stmt) -> bool:
    """Whether a backward or a step stands anywhere in a statement."""
    scope = program.module.scope_of(statement)
    return any(
        program.events.what(node, scope) in _TRAINS
        for node in nodes_in(statement)
        if isinstance(node, ast.Call)
    )
