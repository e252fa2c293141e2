"""The optimizer steps inside the autocast region."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._dedent import belongs_behind, tail_calls
from amp_migrate.checks._finding import Finding, Rule
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind

RULE = Rule("step-inside-autocast", severity="warning")
_KINDS = frozenset({EventKind.BARE_STEP, EventKind.SCALER_STEP})
_MESSAGE = (
    "the autocast block keeps half-precision copies of the weights, which outlive this "
    "step: one more forward pass in it would use old weights; step after the block"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find steps in enabled regions that keep cast weights."""
    for call, region in tail_calls(program, _KINDS):
        if not region.is_false("cache_enabled"):
            yield belongs_behind(program, call, region, RULE, _MESSAGE)
