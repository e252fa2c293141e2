"""A GradScaler is used with bfloat16, which does not need one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import Region, is_autocast, regions
from amp_migrate.config import Settings
from amp_migrate.model.decisions import conditions_of, share_a_cause
from amp_migrate.model.events import EventKind
from amp_migrate.model.program import Program
from amp_migrate.rewrite.edits import AddArgument

RULE = Rule("scaler-for-bf16", severity="info")
_ALWAYS = (
    "bfloat16 has the range of float32 and needs no scaler, which costs a "
    "synchronisation per step; switch it off"
)
_SOMETIMES = (
    "with bfloat16, which may be chosen here, the scaler is not needed and costs a "
    "synchronisation per step; make it with `enabled=dtype == torch.float16`"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find enabled scalers in a module whose regions are all bfloat16."""
    if "caler" not in program.module.text or not regions(program):
        return
    enabled = [r for r in regions(program) if not r.off]
    used = {id(region.call) for region in regions(program)}
    calls = [
        c
        for s in program.module.scopes.values()
        for c in s.calls
        if is_autocast(program, c)
    ]
    choices = [_choices(region) for region in enabled]
    if not enabled or any(id(call) not in used for call in calls):
        return
    if any("bfloat16" not in one for one in choices):
        return
    sure = all(one == {"bfloat16"} for one in choices)
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.events.what(call, scope) != EventKind.SCALER_CREATED:
                continue
            given = next(
                (k.value for k in call.keywords if k.arg == "enabled"), None
            )
            if not sure and _follows_dtype(program, call, enabled):
                continue
            if given is None or (
                isinstance(given, ast.Constant) and given.value
            ):
                yield finding_at(
                    program,
                    call,
                    RULE,
                    _ALWAYS if sure else _SOMETIMES,
                    related=[(enabled[0].place, "bfloat16 here")],
                    fix=_fix(program, call, given) if sure else None,
                )


def _choices(region: Region) -> frozenset[str]:
    """The types that the region may have, where that is written out."""
    written = region.argument("dtype") is not None
    return (region.dtypes if written else None) or frozenset()


def _follows_dtype(
    program: Program, call: ast.Call, enabled: list[Region]
) -> bool:
    """Whether the scaler is made under a condition that has to do with the choice of the dtype."""
    dtypes = [
        (value, program.module.scope_of(region.call))
        for region in enabled
        if (value := region.argument("dtype")) is not None
    ]
    return share_a_cause(program, conditions_of(program, call), dtypes)


def _fix(program: Program, call: ast.Call, given: ast.expr | None) -> Fix:
    if given is not None:
        return Fix(
            "safe",
            "switch the scaler off",
            (Code(program, call).replace(given, "False"),),
        )
    return Fix(
        "safe",
        "switch the scaler off",
        (AddArgument(program.module.span(call), "enabled", "False"),),
    )
