"""A `torch.cuda.amp.autocast()` is nested in a region of another type, which its modern name would
inherit.
"""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._renames import renaming
from amp_migrate.config import Settings
from amp_migrate.model.naming.uses import argument_of
from amp_migrate.model.program import Program

RULE = Rule("rename-changes-nested-dtype", severity="info")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Old regions without a dtype, inside one that is bfloat16 or has no cache."""
    for use in program.uses.of("torch.cuda.amp.autocast"):
        if use.call is None or argument_of(use.call, 1, "dtype") is not None:
            continue
        region = program.regions.region(use.name, use.call)
        outer = program.regions.outside(use.call)
        if region.enabled is False or outer is None or outer.enabled is False:
            continue
        if outer.dtype == "bfloat16" or outer.cached is False:
            inherited = (
                "bfloat16" if outer.dtype == "bfloat16" else "no weight cache"
            )
            message = (
                'this is float16 with a weight cache, while `torch.autocast("cuda")` would '
                f"inherit {inherited} from the region "
                "around it: write `dtype=torch.float16` when you rename it"
            )
            related = [(outer.call, "the autocast block around it")]
            yield finding_at(
                program,
                use.call,
                RULE,
                message,
                related=related,
                fix=renaming(program, use),
            )
