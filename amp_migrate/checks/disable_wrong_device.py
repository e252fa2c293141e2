"""A region is switched off for another device than it is on for."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import Region, region_of, regions
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("disable-wrong-device", severity="error")

_MESSAGE = 'autocast stays on for "{0}": each device type has its own switch; switch "{0}" off'


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find islands whose device type differs from that of the region around."""
    for region in regions(program):
        outer = region_of(program, region.node) if region.off else None
        if region.off and outer is None:
            yield from _of_callers(program, region)
        if (
            outer is None
            or outer.off
            or not region.device
            or not outer.device
            or region.device == outer.device
        ):
            continue
        yield finding_at(
            program,
            region.place,
            RULE,
            _MESSAGE.format(outer.device),
            related=[(outer.place, "switched on here")],
            fix=_fix(region, outer),
        )


def _of_callers(program: Program, region: Region) -> Iterator[Finding]:
    """An island in a function that runs in regions of one other device only."""
    around = program.regions.around(region.node)
    devices = {one.device for one in around if one.enabled is not False}
    device = next(iter(devices), None)
    if len(devices) == 1 and device and region.device not in (None, device):
        places = [(around[0].call, "switched on here")]
        message = _MESSAGE.format(device)
        yield finding_at(program, region.place, RULE, message, related=places)


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
