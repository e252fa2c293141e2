"""The backward pass runs inside the autocast region."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._dedent import move_tail
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import region_of, regions
from amp_migrate.checks.loop_inside_autocast import spanned_step
from amp_migrate.config import Settings
from amp_migrate.model.events import EventKind
from amp_migrate.model.program import Program

RULE = Rule("backward-inside-autocast", severity="warning")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Ask for backward passes in enabled regions."""
    if not regions(program):
        return
    message = (
        "backward operations are cast again here, so what was kept in float32 gets "
        "half-precision gradients; call backward after the autocast block"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            region = (
                region_of(program, call)
                if program.events.what(call, scope) == EventKind.BACKWARD
                else None
            )
            outer = region
            while outer is not None and outer.off:
                outer = None
            if region is None or outer is None or spanned_step(program, region) is not None:
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
