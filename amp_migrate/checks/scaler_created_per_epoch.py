"""A new GradScaler is made for every epoch."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._scalers import repeated
from amp_migrate.config import Settings
from amp_migrate.model.program import Program

RULE = Rule("scaler-created-per-epoch", severity="warning")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find scalers that live for one epoch."""
    message = (
        "a new scaler starts with the factor 65,536 again, and skips steps until it has found "
        "the right one; make it "
        "once, where the "
        "optimizer is made, and pass it on"
    )
    for made in repeated(program):
        if made.often == "epoch":
            related = (
                [(made.caller, "called in a loop here")]
                if made.caller is not None
                else []
            )
            yield finding_at(program, made.call, RULE, message, related=related)
