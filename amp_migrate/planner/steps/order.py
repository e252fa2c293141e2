"""A backward that is over before any optimizer is made belongs to an update by hand, not to the
scaler.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.scaler_placement.placement import Wiring


def check_order(
    program: Program,
    scope: Scope,
    backwards: Iterable[ast.Call],
    wiring: Wiring,
) -> None:
    """Refuse a scope with a backward that always runs before the scaler is made in it."""
    anchors = [
        a
        for home, made in wiring.scalers.homes.items()
        if home.scope is scope and not home.attribute
        for a in made
    ]
    if not anchors:
        return
    first = min(_index(program, scope, anchor) for anchor in anchors)
    for call in backwards:
        at = _index(program, scope, call)
        if at >= first:
            continue
        stepped = [
            one
            for one in program.effects.steps(scope)
            if _index(program, scope, one) == at
        ]
        if stepped:
            raise Refusal(
                "unsupported-shape",
                call,
                f"`{ast.unparse(stepped[0])}` stands above what makes its optimizer (line "
                f"{anchors[0].lineno}), and a scaler would be made there: put what trains below it",
            )
        message = (
            "this backward runs before any optimizer is made: its parameters are "
            "updated by hand"
        )
        raise Refusal("step-elsewhere", call, message)


def _index(program: Program, scope: Scope, node: ast.AST) -> int:
    """The number of the statement of the scope's body that holds `node`."""
    around = {id(node), *(id(one) for one in program.module.ancestors(node))}
    return next(
        (
            index
            for index, statement in enumerate(scope.body)
            if id(statement) in around
        ),
        0,
    )
