"""What stands around a part of the training step: loops that run it again, and what an exit leaves
out.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import Events, Trait
from amp_migrate.model.syntax.module import FUNCTIONS, LOOPS, Function, Scope
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.protocol.paths import Witnesses
from amp_migrate.torch_facts.methods import OF_MODULES


def is_repeated(
    events: Events, function: Function, seen: set[Function]
) -> bool:
    """Whether a loop in sight runs the function again, in its callers or theirs; one that finds it
    by its name alone, of an object that nothing tells about, is not followed.
    """
    seen.add(function)
    program = events.program
    for site in program.graph.sites(function):
        caller = site.scope.node
        if events.callee(site.call, site.scope) is not function:
            continue
        above = program.module.ancestors(site.call)
        if any(isinstance(one, LOOPS) for one in above):
            return True
        if isinstance(caller, FUNCTIONS) and caller not in seen:
            if is_repeated(events, caller, seen):
                return True
    return False


def follow_at_once(program: Program, first: Witnesses, later: ast.AST) -> bool:
    """Whether one statement follows another in a block with nothing between them but events of the
    step and what torch does.
    """
    module = program.module
    if not first:
        return False
    start, end = module.statement_of(first[0]), module.statement_of(later)
    block = module.block_of(start)
    places = [at for at, one in enumerate(block) if one in (start, end)]
    if len(places) != 2 or block[places[0]] is not start:
        return False
    scope = module.scope_of(start)
    return all(
        program.events.what(call, scope) is not None
        or (program.canonical(call.func) or "").startswith("torch.")
        or _last(call) in OF_MODULES
        for one in block[places[0] : places[1]]
        for call in calls_in(one)
    )


def _last(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def skips(events: Events, statement: ast.stmt) -> bool:
    """Whether steps or updates come later in what the statement leaves: the function, or the loop
    that a `break` or `continue` is about.
    """
    module = events.program.module
    scope = module.scope_of(statement)
    above = module.ancestors(statement)
    loops = (one for one in above if isinstance(one, LOOPS))
    left = None if isinstance(statement, ast.Return) else next(loops, None)
    return any(
        _advances(events, call, scope)
        for call in scope.calls
        if call.lineno > statement.lineno
        and (left is None or left in module.ancestors(call))
    )


def _advances(events: Events, call: ast.Call, scope: Scope) -> bool:
    """A step or an update, or a call of what uses a scaler."""
    if events.what(call, scope) in {EventKind.UPDATE, EventKind.SCALER_STEP}:
        return True
    function = events.callee(call, scope)
    return function is not None and Trait.SCALER in events.of_function(function)
