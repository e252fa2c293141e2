"""Methods that run something else for an heir than for the class that defines them, and the order
in which scopes are followed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.program import Program
from amp_migrate.model.steps.recognition import Trait
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.protocol.exploration import Explorer


def called_last(program: Program, scopes: Iterable[Scope]) -> list[Scope]:
    """Those that nobody in sight calls come first, so that the others are met in context."""
    return sorted(
        scopes,
        key=lambda s: (
            isinstance(s.node, FUNCTIONS) and _is_called(program, s),
            s.node.lineno if isinstance(s.node, FUNCTIONS) else 0,
        ),
    )


def _is_called(program: Program, scope: Scope) -> bool:
    assert isinstance(scope.node, FUNCTIONS)
    return any(
        site.scope is not scope for site in program.graph.sites(scope.node)
    )


def changed(
    explorer: Explorer, heir: ast.ClassDef, roots: list[Scope]
) -> list[Scope]:
    """The methods that a class inherits and that run others for it than for the base; what they
    call of the base may do nothing.
    """
    program, graph = explorer.program, explorer.program.graph
    bases = graph.lineage(heir)[1:]
    if not bases:
        return []
    inherited = [
        scope
        for scope in program.module.scopes.values()
        if isinstance(scope.node, FUNCTIONS)
        and scope.owner is not None
        and scope.owner.node in bases
        and graph.method(heir, scope.node.name) is scope.node
    ]
    return [
        scope
        for scope in called_last(program, inherited)
        if isinstance(scope.node, FUNCTIONS)
        and (scope in roots or _leads_to_use(explorer, scope.node))
        and explorer.dispatch.changes(
            heir, explorer.relevance.reached(scope.node).functions
        )
    ]


def _leads_to_use(explorer: Explorer, function: Function) -> bool:
    """Whether what heirs put in the place of what a method calls uses a scaler."""
    return any(
        explorer.events.of_function(one) & (Trait.SCALER | Trait.PLAIN)
        for one in explorer.relevance.reached(function).functions
        if isinstance(one, FUNCTIONS)
    )
