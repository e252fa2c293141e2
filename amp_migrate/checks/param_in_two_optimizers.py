"""Two scaled optimizers share parameters, so shared gradients are unscaled twice."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.forwards.module_places import Found, found
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.held_parameters import in_both, optimized
from amp_migrate.model.syntax.module import Scope
from amp_migrate.records import NamedTuple

RULE = Rule("param-in-two-optimizers", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find two optimizers that hold the same parameters, and that a scaler steps in one block with
    no gradients cleared between.
    """
    message = (
        "these parameters are in another optimizer of the same scaler too, so their gradients "
        "are divided by the scaler's factor twice"
    )
    told: set[ast.AST] = set()
    for scope in program.events.scaler_scopes():
        stepped = list(_stepped(program, scope))
        for first, second in itertools.combinations(stepped, 2):
            early, late = sorted((first.made, second.made), key=_place)
            if late not in told | {early} and _divides_both(
                program, scope, first, second
            ):
                told.add(late)
                yield finding_at(
                    program,
                    late,
                    RULE,
                    message,
                    related=[(early, "the same parameters")],
                )


class _Stepped(NamedTuple):
    """A step that a scaler makes."""

    made: ast.Call
    """What makes the optimizer; the step, where that stands in another file."""
    given: list[Found]
    statement: ast.stmt


def _place(call: ast.Call) -> tuple[int, int]:
    return call.lineno, call.col_offset


def _stepped(program: Program, scope: Scope) -> Iterator[_Stepped]:
    """The steps of a scope whose optimizer one call makes."""
    for call in scope.calls:
        what = program.events.what(call, scope)
        if what != EventKind.SCALER_STEP or not call.args:
            continue
        made = found(program, call.args[0], scope)
        given = optimized(program, call.args[0], scope)
        if len(made) == 1 and made[0].call is not None and given[0]:
            is_here = made[0].frame.program is program
            where = made[0].call if is_here else call
            yield _Stepped(where, given[0], program.module.statement_of(call))


def _divides_both(
    program: Program, scope: Scope, first: _Stepped, second: _Stepped
) -> bool:
    block = program.module.block_of(first.statement)
    places = [
        i
        for i, one in enumerate(block)
        if one is first.statement or one is second.statement
    ]
    between = block[places[0] + 1 : places[-1]]
    return (
        len(places) == 2
        and not any(
            program.effects.of_statement(one, scope) & EventKind.ZERO_GRAD
            for one in between
        )
        and in_both([first.given], [second.given])
    )
