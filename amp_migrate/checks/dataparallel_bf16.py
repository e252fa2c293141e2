"""DataParallel passes autocast on to its replicas, but not its type."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._regions import Region, nodes, regions
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS
from amp_migrate.torch_facts.layers import WRAPPERS

RULE = Rule("dataparallel-bf16", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find DataParallel in a module whose regions outside of forward have another type than
    float16.
    """
    if "DataParallel" not in program.module.text:
        return
    region = next(
        (
            r
            for r in regions(program)
            if r.dtype == "bfloat16" and not r.off and _runs_model(r)
        ),
        None,
    )
    if region is None:
        return
    message = (
        "the replicas run in float16 instead of bfloat16, without a scaler; use "
        "DistributedDataParallel, or write `with autocast` in forward"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.canonical(call.func) in WRAPPERS[:2]:
                yield finding_at(
                    program,
                    call,
                    RULE,
                    message,
                    related=[(region.place, "bfloat16 here")],
                )


def _runs_model(region: Region) -> bool:
    """Outside of a forward method, around a forward pass."""
    function = region.scope.node
    if (
        isinstance(function, FUNCTIONS)
        and function.name == "forward"
        and region.scope.owner is not None
    ):
        return False
    effects = region.program.effects
    return any(
        isinstance(n, ast.Call) and effects.is_forward(n, region.scope)
        for n in nodes(region.blocks())
    )
