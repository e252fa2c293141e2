"""Which loops a mistake in an output comes from: the others of its file stay migrated."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from amp_migrate.model.syntax.extents import extents
from amp_migrate.outcome import LoopOutcome
from amp_migrate.planner.files.file_plan import Plan
from amp_migrate.project.line_diff import opcodes
from amp_migrate.records import NamedTuple

Migrated = Sequence[tuple[str, LoopOutcome]]
"""Migrated loops, with the paths of their files."""


class Wrong(NamedTuple):
    """A mistake in the output of one file; a line of 0 where it stands at none."""

    rule: str
    scope: str
    message: str
    line: int = 0


def at_fault(
    path: str,
    wrong: Wrong,
    migrated: Migrated,
    plan: Plan,
    texts: tuple[str, str],
) -> Migrated:
    """The loops without which a mistake in a scope would not be made: that of the scope, those that
    asked for what was added there; all of the file, or of the program, where nobody did. `texts`:
    the file as it was, and as it would be.
    """
    own = [(file, loop) for file, loop in migrated if file == path]
    around = _scopes_around(wrong.scope)
    named = [(file, loop) for file, loop in own if loop.scope in around]
    if len(named) > 1 and wrong.line:
        return _around(wrong.line, named, texts) or named
    asked = next(
        (plan.askers[one] for one in around if one in plan.askers),
        (),
    )
    asking = [
        (file, loop) for file, loop in migrated if (file, loop.scope) in asked
    ]
    return named or asking or own or migrated


def line_after(line: int, before: str, after: str) -> int:
    """The line of the output at which one of the original stands."""
    return _line_before(line, after.splitlines(), before.splitlines())


def _scopes_around(scope: str) -> list[str]:
    """A scope by its name, and those around it, innermost first."""
    names = accumulate(scope.split("."), "{}.{}".format)
    return [*names][::-1]


def _around(line: int, named: Migrated, texts: tuple[str, str]) -> Migrated:
    """The one whose own statement a line of the output stands in: a `for` that holds it and no
    other one.
    """
    before, after = texts
    old = before.splitlines()
    new = after.splitlines()
    where = _line_before(line, old, new)
    lines = [loop.line for _, loop in named]
    return [
        one
        for one, span in zip(named, extents(before, lines), strict=True)
        if where in span
    ]


def _line_before(line: int, old: Sequence[str], new: Sequence[str]) -> int:
    """The line of the original at which one of the output stands."""
    for _, first, last, begin, end in opcodes(old, new):
        if begin < line <= end:
            return max(1, min(first + line - begin, last))
    return len(old)
