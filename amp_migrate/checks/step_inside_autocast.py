"""The optimizer steps inside the autocast region."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._dedent import move_tail
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import region_of, regions
from amp_migrate.checks.loop_inside_autocast import spanned_step
from amp_migrate.config import Settings
from amp_migrate.model.events import EventKind
from amp_migrate.model.program import Program

RULE = Rule("step-inside-autocast", severity="warning")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Ask for steps in regions that no forward pass uses afterwards."""
    if not regions(program):
        return
    message = (
        "the autocast block keeps half-precision copies of the weights, which outlive this "
        "step: one more forward pass in it would use old weights; step after the block"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.events.what(call, scope) not in {EventKind.BARE_STEP, EventKind.SCALER_STEP}:
                continue
            region = region_of(program, call)
            if (
                region is None
                or region.off
                or region.is_false("cache_enabled")
                or spanned_step(program, region) is not None
            ):
                continue
            edits = move_tail(program, region)
            fix = (
                Fix("safe", "move backward, step and update after the autocast block", edits)
                if edits
                else None
            )
            yield finding_at(
                program,
                call,
                RULE,
                message,
                related=[(region.place, "the autocast block")],
                fix=fix,
            )
