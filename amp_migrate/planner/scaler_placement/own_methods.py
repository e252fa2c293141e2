"""Methods that are handed an optimizer of their own object, as `self.update(self.optimizer)`:
they read the scaler where it is kept.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.scaler_placement.callers import callers_of
from amp_migrate.planner.scaler_placement.optional import given_at

if TYPE_CHECKING:
    from amp_migrate.planner.scaler_placement.placement import Wiring


def kept_beside(
    wiring: Wiring, function: Function, names: list[str]
) -> str | None:
    """The scaler's name in a method which nothing but methods of the same object call, with
    optimizers that its constructor has made.
    """
    inner = wiring.program.scope(function)
    sites = _own_sites(wiring, function, names)
    if not sites:
        return None
    before = wiring.snapshot()
    try:
        held = [_kept_at(wiring, one, inner, names) for one in sites]
    except Refusal:
        held = [False]
    if not all(held):
        wiring.restore(before)
        return None
    access = wiring.scalers.access
    for one in sites:
        wiring.epochs.note(one.call, function)
        access.setdefault(id(inner), []).extend(access[id(one.scope)])
    return f"{inner.self_name}.{wiring.name}"


def _own_sites(
    wiring: Wiring, function: Function, names: list[str]
) -> tuple[CallSite, ...]:
    """The calls of a method, where all are `self.method(...)` in the one class that has it."""
    program = wiring.program
    inner = program.scope(function)
    cls = program.graph.class_around(inner)
    if cls is None or not inner.self_name or inner.owner is None:
        return ()
    if program.graph.escapes(function) or set(program.graph.heirs(cls)) - {cls}:
        return ()
    found = callers_of(program, wiring.project, function, names)
    if found.unknown is not None or found.handed or found.peers:
        return ()
    own = all(
        program.graph.class_around(one.scope) is cls
        and one.scope.self_name is not None
        and dotted_name(one.call.func)
        == f"{one.scope.self_name}.{function.name}"
        for one in found.sites
    )
    return found.sites if own else ()


def _kept_at(
    wiring: Wiring, site: CallSite, inner: Scope, names: list[str]
) -> bool:
    """Whether a call hands optimizers beside which the constructor makes the scaler, whatever
    happens.
    """
    given = given_at(wiring.program, site, inner, names)
    known = [one for one in given if one is not None]
    if len(known) < len(given):
        return False
    name = wiring.provide(known, site.scope, [site.call])
    if name != f"{site.scope.self_name}.{wiring.name}":
        return False
    homes = wiring.scalers.access.get(id(site.scope), [])
    return bool(homes) and all(
        isinstance(one.scope.node, ast.FunctionDef)
        and one.scope.node.name == "__init__"
        and all(
            anchor in one.scope.node.body
            for anchor in wiring.scalers.homes[one]
        )
        for one in homes
    )
