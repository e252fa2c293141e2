"""How the scaler gets into helpers of a loop, which make a part of its step."""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.scaler_placement.callers import (
    callers_of,
    refuse_locked,
)
from amp_migrate.planner.scaler_placement.placement import Wiring
from amp_migrate.rewrite.edits import AddArgument, AddParameter


def reach(wiring: Wiring, stepper: Scope, helper: Scope, name: str) -> str:
    """The scaler's name in a helper that a stepping scope calls."""
    wiring.scalers.access.setdefault(id(helper), []).extend(
        wiring.scalers.access.get(id(stepper), ())
    )
    head, _, attribute = name.partition(".")
    if head == stepper.self_name and _of_family(
        wiring.program, stepper, helper
    ):
        return f"{helper.self_name}.{attribute}"
    home = wiring.scalers.access.get(id(stepper), [])
    if "." not in name and all(h.scope is helper.root for h in home):
        return name
    if not isinstance(helper.node, FUNCTIONS):
        raise Refusal(
            "step-elsewhere",
            helper.node,
            "this helper cannot be given the scaler",
        )
    wiring.thread(helper.node, [])
    _check_handed(wiring, stepper, helper.node)
    return wiring.name


def _check_handed(wiring: Wiring, stepper: Scope, function: Function) -> None:
    """Raise Refusal where the scope that steps calls the function that scales without its scaler:
    that one would step, or unscale, what another has scaled.
    """
    span, sites = (
        wiring.program.module.span,
        wiring.program.graph.sites(function),
    )
    handed = {e.call for e in wiring.edits if isinstance(e, AddArgument)}
    for site in sites:
        if site.scope is stepper and span(site.call) not in handed:
            raise Refusal(
                "step-elsewhere",
                site.call,
                f"the scaler that steps is not made yet where `{function.name}` is called, and its "
                "losses must be scaled by that one",
            )


def _of_family(program: Program, stepper: Scope, helper: Scope) -> bool:
    """Whether a method runs on the same object as the one that calls it: no other call of it there
    names another object.
    """
    cls, owner = program.graph.class_around(stepper), helper.owner
    if cls is None or owner is None or not helper.self_name:
        return False
    graph = program.graph
    family = (*graph.lineage(cls), *graph.heirs(cls))
    return owner.node in family and not any(
        isinstance(call.func, ast.Attribute)
        and not isinstance(call.func.value, ast.Call)
        and dotted_name(call.func.value) != stepper.self_name
        for call in stepper.calls
        if program.values.callee(call, stepper) is helper.node
    )


def reach_step(
    wiring: Wiring,
    stepper: Scope,
    calls: list[ast.Call],
    helper: Scope,
    name: str,
) -> str:
    """The scaler's name in a helper that makes the steps of `calls` in a stepping scope."""
    wiring.scalers.access.setdefault(id(helper), []).extend(
        wiring.scalers.access.get(id(stepper), ())
    )
    function = helper.node
    if not isinstance(function, FUNCTIONS):
        raise Refusal(
            "step-elsewhere", function, "this helper cannot be given the scaler"
        )
    found = callers_of(wiring.program, wiring.project, function)
    others = any(
        s.call not in calls and s.scope is not helper for s in found.sites
    )
    if not others and not wiring.program.graph.escapes(function):
        seen = _shared(wiring, stepper, calls, helper, name)
        if seen is not None:
            return seen
    refuse_locked(wiring.project, helper.module, function)
    _give(wiring, function, calls, name, others or found.unknown is not None)
    return wiring.name


def _give(
    wiring: Wiring,
    function: Function,
    calls: list[ast.Call],
    name: str,
    is_optional: bool,
) -> None:
    """A parameter for the scaler, which `calls` pass; optional where others call it, too."""
    if is_optional:
        wiring.make_optional(
            function, f"`{function.name}` is called elsewhere, too"
        )
    wiring.scalers.threaded.add(id(function))
    default = "None" if is_optional else None
    holder = name.rpartition(".")[0]
    span = wiring.program.module.span
    for one in wiring.names:
        wiring.edits[AddParameter(span(function), one, default)] = None
        given = f"{holder}.{one}" if holder else one
        for call in calls:
            wiring.edits[AddArgument(span(call), one, given)] = None


def _shared(
    wiring: Wiring,
    stepper: Scope,
    calls: list[ast.Call],
    helper: Scope,
    name: str,
) -> str | None:
    """The scaler's name where a helper can see it as it is: on the same object, or
    around it.
    """
    head, _, rest = name.partition(".")
    if rest and head == stepper.self_name:
        own = all(
            isinstance(c.func, ast.Attribute)
            and dotted_name(c.func.value) == head
            for c in calls
        )
        return (
            f"{helper.self_name}.{rest}" if own and helper.self_name else None
        )
    homes = {
        id(home.scope) for home in wiring.scalers.access.get(id(stepper), ())
    }
    here = (
        helper.parent if helper.owner is None else None
    )  # a class outlives its script
    while here is not None:
        if id(here) in homes:
            return name
        here = here.parent
    return None
