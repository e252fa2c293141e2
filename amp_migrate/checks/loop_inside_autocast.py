"""One autocast region spans several optimizer steps, so the forward passes use stale weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import (
    Region,
    nodes,
    region_of,
    regions,
    statements,
    steps,
    without_gradients,
)
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, Scope
from amp_migrate.rewrite.edits import (
    Edit,
    ReplaceStatement,
    Template,
    WrapStatements,
)

RULE = Rule("loop-inside-autocast", severity="error")
_HOPS = 4
"""Functions that are looked into for a loop."""


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find regions with a loop that steps, or with a forward pass behind a step."""
    message = (
        "this block outlives an optimizer step, and goes on using the half-precision copies "
        "of the weights that it keeps: training is frozen; give each forward pass and its "
        "loss an autocast block of their own"
    )
    for region in regions(program):
        step = spanned_step(program, region)
        if step is not None:
            yield finding_at(
                program,
                region.place,
                RULE,
                message,
                related=[(step, "the weights change here")],
                fix=_fix(program, region),
            )


def spanned_step(program: Program, region: Region) -> ast.Call | None:
    """A step after which the region goes on using the model; None where there is none."""
    if (
        region.off
        or region.is_false("cache_enabled")
        or without_gradients(program, region.call)
    ):
        return None
    for statement in statements(region.blocks()):
        if isinstance(statement, LOOPS):
            found = next(
                (
                    s
                    for inner in statement.body
                    for s in steps(program, inner, region.scope)
                ),
                None,
            )
            if found is not None and not _has_own_region(
                program, found, region
            ):
                return found
    return _step_before_forward(program, region) or _loop_called(
        program, region
    )


def _loop_called(program: Program, region: Region) -> ast.Call | None:
    """A call in the region of what trains in a loop of its own."""
    for statement in statements(region.blocks()):
        for call in (n for n in nodes([statement]) if isinstance(n, ast.Call)):
            if _trains_in_loop(program, call, region.scope, _HOPS):
                return call
    return None


def _trains_in_loop(
    program: Program, call: ast.Call, scope: Scope, hops: int
) -> bool:
    """Whether a function in sight that a call runs goes backward and steps in a loop, which no
    region within switches off.
    """
    function = program.events.callee(call, scope)
    if function is None or not hops:
        return False
    inner = program.module.scopes[function]
    for statement in statements(function.body):
        if isinstance(statement, LOOPS) and _is_cycle(
            program, statement.body, inner
        ):
            return True
    return any(
        _trains_in_loop(program, one, inner, hops - 1) for one in inner.calls
    )


def _is_cycle(program: Program, block: list[ast.stmt], scope: Scope) -> bool:
    """Whether a turn goes backward and steps, in it or below, in no region of its own."""
    calls = [n for n in nodes(block) if isinstance(n, ast.Call)]
    backwards = [
        one
        for one in calls
        if program.events.what(one, scope) is EventKind.BACKWARD
    ]
    return any(region_of(program, one) is None for one in backwards) and any(
        next(steps(program, one, scope), None) is not None for one in block
    )


def _has_own_region(program: Program, node: ast.AST, region: Region) -> bool:
    """A region of its own around each forward does not help: the cache lives until the outermost
    one ends.
    """
    inner = region_of(program, node)
    return (
        inner is not None
        and inner.node is not region.node
        and inner.off
        and region_of(program, inner.node) is None
    )


def _step_before_forward(program: Program, region: Region) -> ast.Call | None:
    made: ast.Call | None = None
    block = [s for s in region.blocks() if not isinstance(s, ast.If)]
    for statement in block:
        if made is not None and _runs_model(program, statement, region):
            return made
        made = made or next(steps(program, statement, region.scope), None)
    return None


def _runs_model(program: Program, statement: ast.stmt, region: Region) -> bool:
    calls = (n for n in nodes([statement]) if isinstance(n, ast.Call))
    return any(
        program.effects.is_forward(call, region.scope)
        and not without_gradients(program, call)
        for call in calls
    )


def _fix(program: Program, region: Region) -> Fix | None:
    """The region moves to the statements from the first forward pass to the backward, where these
    are neighbours.
    """
    if not region.is_here:
        return None
    node = region.node
    if (
        not isinstance(node, ast.With)
        or len(node.items) != 1
        or node.items[0].optional_vars is not None
    ):
        return None
    wraps = _wraps(program, region)
    if wraps is None:
        return None
    code = Code(program, node.body[0])
    body = tuple(Template("$0", (code.span(s),)) for s in node.body)
    return Fix(
        "safe",
        "give each forward pass and its loss an autocast block of their own",
        (ReplaceStatement(code.span(node), body), *wraps),
    )


def _wraps(program: Program, region: Region) -> list[Edit] | None:
    """The edits that put the forward of the one backward under autocast; None without one."""
    code = Code(program, region.node.body[0])
    header = code.source(region.call)
    backwards = [
        s
        for s in statements(region.blocks())
        if code.is_event(s, EventKind.BACKWARD)
    ]
    found: list[Edit] = []
    for backward in backwards:
        above: list[ast.stmt] = []
        for statement in code.before(backward):
            if code.events.of_node(statement, code.scope):
                break
            above.insert(0, statement)
        while above and not _runs_model(program, above[0], region):
            del above[0]
        if not above:
            return None
        found.append(
            WrapStatements(code.span(above[0]), code.span(above[-1]), header)
        )
    inside = [
        c
        for n in nodes(region.blocks())
        if isinstance(n, ast.Call)
        and program.effects.is_forward(c := n, region.scope)
    ]
    return found if found and len(found) == 1 and inside else None
