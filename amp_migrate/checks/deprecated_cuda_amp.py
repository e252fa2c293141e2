"""A name of `torch.cuda.amp` or `torch.cpu.amp` is used; they moved to `torch.amp`."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._renames import is_decorator, renaming
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.torch_facts.amp_api import DEPRECATED

RULE = Rule("deprecated-cuda-amp", severity="info", since=(2, 4))


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Calls and decorators of the old names, unless the program asks first which torch there is."""
    for use in program.uses.of(*DEPRECATED):
        node = use.call or use.node
        if use.call is None and not is_decorator(program, use.node):
            continue
        if program.uses.is_guarded(node) or program.uses.is_shimmed(use):
            continue
        new = use.name.rpartition(".")[2]
        message = (
            f"`{use.name}` warns since torch 2.4 and will go: use `torch.amp.{new}` with "
            "the device type"
        )
        yield finding_at(
            program, node, RULE, message, fix=renaming(program, use)
        )
