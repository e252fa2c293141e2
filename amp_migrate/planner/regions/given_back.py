"""What a loop's function gives back besides its loss: where a caller in another file goes backward
from it, its gradients need the scaler, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.shared_forwards import (
    forwards_behind,
    given_back,
    inside,
)
from amp_migrate.planner.regions.statement_runs import Region
from amp_migrate.project.import_paths import resolved
from amp_migrate.torch_facts.methods import OF_MODULES


def goes_on(
    program: Program,
    scope: Scope,
    backwards: list[ast.Call],
    regions: Iterable[tuple[Scope, Region]],
) -> Refusal | None:
    """Why a loop cannot be planned without the files that may go backward from what it returns."""
    function = scope.node
    if not isinstance(function, FUNCTIONS) or function.name in OF_MODULES:
        return None
    planned = {s for _, one in regions for s in inside(one.statements())}
    used = {s for _, s in forwards_behind(program, backwards)}
    kept = [
        statement
        for _, statement in given_back(program, function)
        if statement in planned - used
    ]
    users = _users(program, function.name) if kept else []
    if not users:
        return None
    return Refusal(
        "mixed-gradients",
        backwards[0],
        f"`{function.name}` gives back what line {kept[0].lineno} computes under autocast, and "
        f"{users[0]} may go backward from it without the scaler",
        files=tuple(map(resolved, users)),
    )


def _users(program: Program, name: str) -> list[str]:
    """The files out of the program that call a function of that name and go backward."""
    near = program.module.neighbours
    own = {resolved(file.path) for file in program.module.files}
    called = near.mentioning(f"{name}(") if near is not None else ()
    return [
        one.module.path
        for one in called
        if "backward(" in one.module.text
        and resolved(one.module.path) not in own
    ]
