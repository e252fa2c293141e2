"""An old function that reads or sets the state of autocast is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._renames import torch_name
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.rewrite.edits import ReplaceExpression, Template
from amp_migrate.torch_facts.amp_api import OLD_STATE

RULE = Rule("deprecated-state-getters", severity="info", since=(2, 4))


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Calls of the old functions."""
    for use in program.uses.of(*OLD_STATE):
        if use.call is None or program.uses.is_guarded(use.call):
            continue
        name, device = OLD_STATE[use.name]
        message = f'`{use.name}` is deprecated since torch 2.4: use `torch.{name}("{device}")`'
        yield finding_at(
            program,
            use.call,
            RULE,
            message,
            fix=_fix(program, use.call, name, device),
        )


def _fix(
    program: Program, call: ast.Call, name: str, device: str
) -> Fix | None:
    if (
        call.keywords
        or len(call.args) > 1
        or any(isinstance(one, ast.Starred) for one in call.args)
    ):
        return None
    torch, imports = torch_name(program)
    parts = tuple(program.module.span(one) for one in call.args)
    said = ", ".join(
        [f'"{device}"', *(f"${index}" for index in range(len(parts)))]
    )
    edit = ReplaceExpression(
        program.module.span(call), Template(f"{torch}.{name}({said})", parts)
    )
    how = "use the general function, which the old one calls"
    return Fix("safe", how, (*imports, edit), since=(2, 4))
