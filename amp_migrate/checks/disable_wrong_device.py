"""A region is switched off for another device than it is on for."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import Region, region_of, regions
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("disable-wrong-device", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find islands whose device type differs from that of the region around."""
    for region in regions(program):
        outer = region_of(program, region.node) if region.off else None
        if (
            outer is None
            or outer.off
            or not region.device
            or not outer.device
            or region.device == outer.device
        ):
            continue
        message = (
            f'autocast stays on for "{outer.device}": each device type has its own switch; '
            f'switch "{outer.device}" off'
        )
        yield finding_at(
            program,
            region.place,
            RULE,
            message,
            related=[(outer.place, "switched on here")],
            fix=_fix(region, outer),
        )


def _fix(region: Region, outer: Region) -> Fix | None:
    mine, theirs = region.argument("device_type"), outer.argument("device_type")
    if mine is None or theirs is None:
        return None
    code = Code(region.program, region.call)
    return Fix(
        "safe",
        "switch off the device that is on",
        (code.replace(mine, code.source(theirs)),),
    )
