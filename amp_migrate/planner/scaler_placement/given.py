"""Which scaler scales a loss that one function computes and another differentiates."""

from __future__ import annotations

from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.planner.scaler_placement.placement import Wiring
from amp_migrate.rewrite.edits import AddArgument


def given_in(wiring: Wiring, scope: Scope, inner: Scope) -> str | None:
    """What the calls of `inner` in `scope` pass it, or what `scope` sees where `inner` needs none;
    empty where there are no scalers at all. None where some call passes none, so that the loss is
    not scaled there.
    """
    seen = wiring.scalers.visible(scope) or ""
    function = inner.node
    if id(function) not in wiring.scalers.threaded:
        return seen
    assert isinstance(function, FUNCTIONS)
    calls = {
        wiring.program.module.span(site.call)
        for site in wiring.program.graph.sites(function)
        if site.scope is scope
    }
    passed = {
        edit.call: edit.value
        for edit in wiring.edits
        if isinstance(edit, AddArgument)
        and edit.call in calls
        and edit.name == wiring.name
    }
    complete = len(passed) == len(calls)
    return next(iter(passed.values()), seen) if complete else None
