"""On torch 1.13 and older, a custom function runs its backward pass in float16 although its
forward pass ran in bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._regions import regions
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.planner.half_safety.autograd_functions import (
    BACKWARD,
    decorator,
    functions,
)

RULE = Rule("custom_bwd-bf16-old-torch", severity="warning", until=(1, 13))


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find `custom_bwd` in a module with a bfloat16 region."""
    region = next(
        (r for r in regions(program) if r.dtype == "bfloat16" and not r.off),
        None,
    )
    if region is None:
        return
    message = (
        "before torch 2.0 this backward pass runs in float16, without a "
        "scaler; ask for torch 2.0"
    )
    for custom in functions(program):
        backward = custom.method("backward")
        mark = (
            decorator(program, backward, BACKWARD)
            if backward is not None
            else None
        )
        if mark is not None:
            yield finding_at(
                program,
                mark,
                RULE,
                message,
                related=[(region.place, "bfloat16 here")],
            )
