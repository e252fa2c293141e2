"""Loops that scale their loss and never ask for autocast: the regions are added, and the scaler
stays as it is.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from amp_migrate.config import Settings
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import SCALERS, Kind
from amp_migrate.outcome import COMPLETED
from amp_migrate.planner.half_safety.bce import ProbabilityLosses
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.penalties import Penalties
from amp_migrate.planner.half_safety.region_exit_casts import casts_after
from amp_migrate.planner.preconditions.checks import screen_training
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.forward_regions import RegionFinder
from amp_migrate.planner.regions.statement_runs import Region
from amp_migrate.planner.spelling import Spelling
from amp_migrate.rewrite.edits import ReplaceExpression

DONE = f"{COMPLETED}forward and loss under autocast"


@dataclass(frozen=True, eq=False)
class Completion:
    """The regions of one loop that has a scaler already."""

    scope: Scope
    regions: tuple[Region, ...]
    header: str
    casts: tuple[ReplaceExpression, ...]


def completion(
    program: Program,
    scope: Scope,
    backwards: list[ast.Call],
    settings: Settings,
    spelling: Spelling,
) -> Completion | None:
    """What a scaled loop lacks; None where it lacks nothing, or where autocast may be out of
    sight.
    """
    if settings.dtype != "float16" or _has_autocast(program, scope):
        return None
    scaler = _scaler(program, scope, backwards)
    if scaler is None:
        return None
    try:
        if screen_training(program, scope, backwards):
            return None  # nothing tells whether their scaler is off for these
        return _regions(
            program,
            scope,
            backwards,
            settings,
            spelling.autocast('"cuda"', f"{scaler}.is_enabled()"),
        )
    except Refusal:
        return None


def _regions(
    program: Program,
    scope: Scope,
    backwards: list[ast.Call],
    settings: Settings,
    header: str,
) -> Completion | None:
    hazards = Hazards(program)
    penalties = Penalties(program, scope, hazards)
    losses = ProbabilityLosses(program, scope, backwards, hazards)
    late = losses.late() | penalties.late()
    regions = RegionFinder(program, scope, backwards, late).find()
    if regions.hoists or not regions.regions:
        return None
    hazards.enter((region.statements(), scope) for region in regions.regions)
    losses.mend()
    for region in regions.regions:
        hazards.check(region.statements(), scope)
    penalties.casts(regions, late)
    casts_after(program, scope, late, hazards, settings)
    return Completion(scope, regions.regions, header, tuple(hazards.casts))


def _has_autocast(program: Program, scope: Scope) -> bool:
    """Here, or in a file of the project that is imported: a model may ask for autocast in its
    forward.
    """
    here = scope.module
    found = (
        (here.neighbours.find(name) for name in here.imports.names.values())
        if here.neighbours
        else ()
    )
    modules = [
        program.module,
        here,
        *(
            definition[0].module
            for definition in found
            if definition is not None
        ),
    ]
    return any(
        "autocast" in name for module in modules for name in module.identifiers
    )


def _scaler(
    program: Program, scope: Scope, backwards: list[ast.Call]
) -> str | None:
    """The one GradScaler for CUDA, by its name, by which every loss of the loop is scaled in
    backward's receiver.
    """
    names: set[str | None] = set()
    for call in backwards:
        scaled = (
            call.func.value if isinstance(call.func, ast.Attribute) else None
        )
        if not (
            isinstance(scaled, ast.Call)
            and isinstance(scaled.func, ast.Attribute)
            and scaled.func.attr == "scale"
        ):
            return None
        value = program.values.of(scaled.func.value, scope)
        if (
            value.kind is not Kind.SCALER
            or value.name not in SCALERS
            or not _for_cuda(value.origin)
        ):
            return None
        names.add(dotted_name(scaled.func.value))
    return names.pop() if len(names) == 1 else None


def _for_cuda(made: ast.expr | None) -> bool:
    if not isinstance(made, ast.Call):
        return False
    device = [
        *made.args[:1],
        *(k.value for k in made.keywords if k.arg == "device"),
    ]
    return all(
        isinstance(d, ast.Constant) and d.value == "cuda" for d in device
    )
