"""Optimizers that a function makes where its callers give none: `optimizer=None`, and
`if optimizer is None: optimizer = Adam(...)`.
"""

from __future__ import annotations

import ast

from amp_migrate.model.calls.arguments import default_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import is_none
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.scaler_placement.callers import callers_of
from amp_migrate.planner.scaler_placement.optional import given_at
from amp_migrate.planner.scaler_placement.sources import is_parameter
from amp_migrate.project.module_graph import Project


def given_by_callers(
    program: Program, project: Project, names: list[str], home: Scope
) -> bool:
    """Whether one of some optimizers is a parameter of a function, and some call may give it."""
    parameters = [name for name in names if is_parameter(name, home)]
    return bool(parameters) and not _made_for_none(
        program, project, parameters, home
    )


def _made_for_none(
    program: Program, project: Project, names: list[str], home: Scope
) -> bool:
    """Whether a function makes each of some optimizers itself, since it is given none by any call:
    all of its callers are in sight, and leave them out.
    """
    function = home.node
    if not isinstance(function, FUNCTIONS):
        return False
    if not all(_is_made(program, name, home) for name in names):
        return False
    found = callers_of(program, project, function, names)
    if found.unknown is not None or not found.sites:
        return False
    return not any(_spreads(site.call) for site in found.sites) and all(
        one is None or is_none(one)
        for site in found.sites
        for one in given_at(program, site, home, names)
    )


def _is_made(program: Program, name: str, home: Scope) -> bool:
    """Whether a parameter is None by default, and the body makes an optimizer for it."""
    assert isinstance(home.node, FUNCTIONS)
    bindings = home.bindings.get(name, ())
    made = [one.value for one in bindings if one.how == "assign"]
    return (
        is_none(default_of(home.node, name))
        and len(made) == len(bindings) - 1 == 1
        and made[0] is not None
        and program.values.kind(made[0], home) is Kind.OPTIMIZER
    )


def _spreads(call: ast.Call) -> bool:
    """Whether a call gives more than it shows."""
    starred = any(isinstance(one, ast.Starred) for one in call.args)
    return starred or any(one.arg is None for one in call.keywords)
