"""On torch before 2.0, activation checkpointing recomputes in another type than the forward pass
used.
"""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._regions import region_of, regions
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("checkpoint-bf16-old-torch", severity="warning", until=(1, 13))


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find checkpointing in bfloat16 regions."""
    if "checkpoint" not in program.module.text or not regions(program):
        return
    message = (
        "before PyTorch 2.0 the forward pass is computed again in another type, so the "
        "gradients are not those of the loss; ask for torch 2.0"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if (
                program.canonical(call.func)
                == "torch.utils.checkpoint.checkpoint"
            ):
                region = region_of(program, call)
                if (
                    region is not None
                    and region.dtype == "bfloat16"
                    and not region.off
                ):
                    yield finding_at(
                        program,
                        call,
                        RULE,
                        message,
                        related=[(region.place, "bfloat16 here")],
                    )
