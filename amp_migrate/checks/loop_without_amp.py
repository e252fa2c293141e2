"""A plain float32 training loop that the migrator has a rewrite for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._plans import planned_loops, related_files
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import LOOPS

RULE = Rule(
    "loop-without-amp",
    severity="warning",
    without_amp=True,
    by_file=True,
    not_for_tests=True,
)
_MESSAGE = (
    "this loop trains in float32, which leaves much of a GPU's speed and memory unused: "
    "`amp-migrate` can rewrite it"
)
_FIX = Fix(
    "safe",
    "rewrite the loop to mixed precision, as `amp-migrate` does",
    migrates=True,
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """One finding for each loop that would be migrated."""
    for call, loop in planned_loops(program, settings):
        if loop.status == "migrated" and _is_repeated(program, call):
            others = related_files(program, settings)
            message = (
                f"{_MESSAGE}, together with {', '.join(others[:3])}"
                if others
                else _MESSAGE
            )
            yield finding_at(
                program, call, RULE, message, fix=None if others else _FIX
            )


def _is_repeated(program: Program, call: ast.Call) -> bool:
    """Whether a step may be taken again: a script that takes one alone tries something out."""
    is_script = isinstance(program.module.scope_of(call).node, ast.Module)
    return not is_script or any(
        isinstance(above, LOOPS) for above in program.module.ancestors(call)
    )
