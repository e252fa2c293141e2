"""The plain GradScaler is used with FullyShardedDataParallel."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.scalers import is_disabled
from amp_migrate.model.values.kinds import SCALERS

RULE = Rule("fsdp-plain-gradscaler", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find a plain scaler in a module that wraps a model in FSDP1."""
    text = program.module.text
    if "FullyShardedDataParallel" not in text or "ShardedGradScaler" in text:
        return  # who knows the sharded scaler uses the plain one elsewhere
    calls = [
        call for scope in program.module.scopes.values() for call in scope.calls
    ]
    names = [(program.canonical(call.func) or "") for call in calls]
    if not any(
        name.startswith("torch.") and name.endswith(".FullyShardedDataParallel")
        for name in names
    ):
        return
    message = (
        "each rank sees only its shard, so ranks disagree on which steps to skip; use "
        "ShardedGradScaler from "
        "torch.distributed.fsdp.sharded_grad_scaler, or bfloat16"
    )
    for call, name in zip(calls, names, strict=True):
        if name in SCALERS and not is_disabled(call):
            yield finding_at(program, call, RULE, message)
