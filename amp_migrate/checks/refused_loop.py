"""A training loop that the migrator refuses, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._plans import planned_loops
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule(
    "refused-loop",
    severity="info",
    default=False,
    without_amp=True,
    by_file=True,
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """One finding for each loop that is refused."""
    for call, loop in planned_loops(program, settings):
        if loop.status == "refused":
            said = (
                f"{loop.reason}: {loop.message}; `amp-migrate explain {loop.reason}` says "
                "what can be done"
            )
            yield finding_at(program, call, RULE, said)
