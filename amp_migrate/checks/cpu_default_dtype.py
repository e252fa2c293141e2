"""The region's type depends on the device, since none is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._renames import torch_name
from amp_migrate.config import Settings
from amp_migrate.model.autocast.regions import NEW
from amp_migrate.model.naming.uses import argument_of
from amp_migrate.model.program import Program
from amp_migrate.model.values.kinds import SCALERS
from amp_migrate.rewrite.edits import AddArgument

RULE = Rule("cpu-default-dtype", severity="info", default=False)
_MESSAGE = (
    "without `dtype` this is bfloat16 on a CPU and float16 on CUDA, which computes "
    "something else: write `dtype=`"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Regions without a dtype whose device type is no literal."""
    dtype = (
        "float16"
        if any(True for _ in program.uses.calls(*SCALERS))
        else "bfloat16"
    )
    for call, _ in program.uses.calls(*NEW):
        device = argument_of(call, 0, "device_type")
        spread = any(isinstance(one, ast.Starred) for one in call.args) or any(
            one.arg is None for one in call.keywords
        )
        if (
            device is None
            or isinstance(device, ast.Constant)
            or spread
            or argument_of(call, 1, "dtype") is not None
        ):
            continue
        enabled = argument_of(call, 2, "enabled")
        if isinstance(enabled, ast.Constant) and enabled.value is False:
            continue
        torch, imports = torch_name(program)
        edit = AddArgument(
            program.module.span(call), "dtype", f"{torch}.{dtype}"
        )
        fix = Fix(
            "unsafe",
            f"write `dtype={torch}.{dtype}`, which changes one of the two machines",
            (*imports, edit),
        )
        yield finding_at(program, call, RULE, _MESSAGE, fix=fix)
