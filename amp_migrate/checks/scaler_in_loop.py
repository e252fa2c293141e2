"""A new GradScaler is made for every batch."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._scalers import Made, repeated
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import LOOPS
from amp_migrate.model.syntax.queries import names_in, names_stored

RULE = Rule("scaler-in-loop", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find scalers that live for one step."""
    message = (
        "a scaler per step never adapts: if its first scale overflows, no step is ever "
        "taken; make it once, before the loop"
    )
    for made in repeated(program):
        if made.often == "batch":
            related = (
                [(made.caller, "called in a loop here")]
                if made.caller is not None
                else []
            )
            yield finding_at(
                program,
                made.call,
                RULE,
                message,
                related=related,
                fix=_fix(program, made),
            )


def _fix(program: Program, made: Made) -> Fix | None:
    """The statement moves before the outermost loop, unless its arguments are made in there."""
    if made.loop is None:
        return None
    code = Code(program, made.call)
    around = [
        a
        for a in program.module.ancestors(made.call)
        if isinstance(a, LOOPS) and program.module.scope_of(a) is code.scope
    ]
    outermost = around[-1]
    if names_in(made.call) & names_stored(outermost) or len(code.block()) < 2:
        return None
    how = "make it once, before the loop: the sequence of scales changes"
    return Fix("unsafe", how, code.move_before(outermost, code.statement))
