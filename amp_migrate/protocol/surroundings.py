"""What stands around a part of the training step: loops that run it again, and what an exit leaves
out.
"""

from __future__ import annotations

import ast

from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import Events, Trait
from amp_migrate.model.syntax.module import FUNCTIONS, LOOPS, Function, Scope


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
