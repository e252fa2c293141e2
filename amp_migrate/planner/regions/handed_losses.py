"""Losses that a function is handed: `self.backward(loss)` is differentiated there and computed by
the callers, whose forwards stand under autocast.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.dataflow.body_events import is_of_same_object
from amp_migrate.model.gradients.flow import under_no_grad
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.planner.files.own_attributes import path_of
from amp_migrate.planner.groups import Group
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.forward_regions import RegionFinder
from amp_migrate.planner.regions.loss_flow import flow_of, header, tokens
from amp_migrate.planner.regions.statement_runs import Region, receivers

Above: TypeAlias = tuple[Scope, Region, frozenset[str]]
"""A region in a caller, and the names there that hold values computed under autocast."""


def regions_above(program: Program, group: Group) -> list[Above]:
    """The regions in the callers of a scope that is handed its losses; none where it is not."""
    names = {
        name
        for call in group.backwards
        for name in _handed(program, group.scope, call)
    }
    names |= _kept(program, group)
    return [
        above
        for site in (_sites(program, group) if names else ())
        for above in _at(program, group.scope, names, site)
    ]


def _sites(program: Program, group: Group) -> list[CallSite]:
    """The calls that may lead to the backwards of a function."""
    function = group.scope.node
    if not isinstance(function, FUNCTIONS):
        return []
    return [
        site
        for site in program.graph.sites(function)
        if program.values.callee(site.call, site.scope) is function
        and not _is_evaluated(program, site)
    ]


def _kept(program: Program, group: Group) -> set[str]:
    """`self.loss` or `self.log["loss"]`, which is differentiated as it stands and which a sister
    method sets: its calls come before those of this one, where both stand in one body.
    """
    scope = group.scope
    losses = [
        one for call in group.backwards for one in receivers(call, program)
    ]
    names = {path_of(one) or "" for one in losses}
    flow = flow_of(scope, program)
    own = {name for step in flow.steps for name in step.defines}
    plain = all(
        name.partition(".")[0] == scope.self_name and name.count(".") == 1
        for name in names
    )
    if scope.self_name is None or not plain or names & own:
        return set()
    calls = _sites(program, group)
    same = all(
        is_of_same_object(one.call, one.scope.self_name)
        and one.scope.self_name == scope.self_name
        for one in calls
    )
    return names if calls and same else set()


def _is_evaluated(program: Program, site: CallSite) -> bool:
    """Whether a call stands under `no_grad`: a backward of what it is given would raise, so it
    leads to none.
    """
    return under_no_grad(program, program.module.statement_of(site.call))


def is_handed(program: Program, group: Group) -> bool:
    """Whether a parameter itself is differentiated, or arithmetic on parameters."""
    parameters = {one.arg for one in group.scope.parameters()} - {
        group.scope.self_name
    }
    used = [
        tokens(one)
        for call in group.backwards
        for one in receivers(call, program)
    ]
    return bool(used) and all(names <= parameters for names in used)


def _handed(
    program: Program, scope: Scope, backward: ast.Call
) -> Iterator[str]:
    """The parameters that a backward's loss is made of."""
    flow, at = flow_of(scope, program), program.module.statement_of(backward)
    parameters = {one.arg for one in scope.parameters()} - {scope.self_name}
    for receiver in receivers(backward, program):
        used = tokens(receiver)
        for step in flow.slice(receiver, at):
            used |= step.uses
        yield from sorted(
            {name.partition(".")[0] for name in used} & parameters
        )


def _at(
    program: Program, inner: Scope, names: set[str], site: CallSite
) -> Iterator[Above]:
    """The regions of one call. Raises Refusal where its forward cannot be wrapped."""

    def losses(call: ast.Call) -> list[ast.expr]:
        given = [
            _read(name)
            if "." in name
            else argument(call, inner, name, site.bound)
            for name in sorted(names)
        ]
        return [
            one
            for one in given
            if one is not None and not _is_model(program, one, site.scope)
        ]

    finder = RegionFinder(program, site.scope, [site.call], frozenset(), losses)
    found = finder.find()
    if found.hoists:
        raise Refusal(
            "unsupported-shape",
            site.call,
            f"the loss is computed among the arguments of `{ast.unparse(site.call.func)}`: "
            "give it a name first",
        )
    for region in found.regions:
        _refuse_bce(program, site.scope, region)
        yield site.scope, region, found.tainted


def _read(name: str) -> ast.expr:
    """The attribute, or the entry of one, that a sister method has set."""
    return ast.parse(name, mode="eval").body


def _is_model(program: Program, expr: ast.expr, scope: Scope) -> bool:
    return dotted_name(expr) is not None and program.values.is_model(
        expr, scope
    )


def _refuse_bce(program: Program, scope: Scope, region: Region) -> None:
    """A loss that is computed in a body that the region runs is set apart there."""
    for statement in region.statements():
        for node in (n for root in header(statement) for n in shallow(root)):
            if isinstance(node, ast.Call) and program.effects.is_bce(
                node, scope
            ):
                raise Refusal(
                    "bce-on-probabilities",
                    statement,
                    "a binary cross-entropy on probabilities is computed here, and its backward "
                    "runs in another function",
                )
