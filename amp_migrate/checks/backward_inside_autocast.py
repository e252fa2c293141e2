"""The backward pass runs inside the autocast region."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._dedent import belongs_behind, tail_calls
from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._framework_backwards import framework_backwards
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind

RULE = Rule("backward-inside-autocast", severity="warning")
_KINDS = frozenset({EventKind.BACKWARD})
_MESSAGE = (
    "backward operations are cast again here, so what was kept in float32 gets "
    "half-precision gradients; call backward after the autocast block"
)


def check(
    program: Program,
    settings: Settings,
) -> Iterator[Finding]:
    """Find backward passes in enabled regions."""
    for call, region in tail_calls(program, _KINDS):
        yield belongs_behind(program, call, region, RULE, _MESSAGE)
    for call, opened in framework_backwards(program):
        related = [(opened, "the autocast block")]
        yield finding_at(program, call, RULE, _MESSAGE, related=related)
