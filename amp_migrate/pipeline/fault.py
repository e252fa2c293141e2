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
    around = [*accumulate(wrong.scope.split("."), "{}.{}".format)][::-1]
    named = [one for one in own if one[1].scope in around]
    if len(named) > 1 and wrong.line:
        return _around(wrong.line, named, texts) or named
    asked = next((plan.askers[s] for s in around if s in plan.askers), ())
    asking = [one for one in migrated if (one[0], one[1].scope) in asked]
    return named or asking or own or migrated


def _around(line: int, named: Migrated, texts: tuple[str, str]) -> Migrated:
    """The one whose own statement a line of the output stands in: a `for` that holds it and no
    other one.
    """
    before, after = texts
    where = _line_before(line, before.splitlines(), after.splitlines())
    lines = [loop.line for _, loop in named]
    spans = extents(before, lines)
    return [
        one for one, span in zip(named, spans, strict=True) if where in span
    ]


def _line_before(line: int, old: Sequence[str], new: Sequence[str]) -> int:
    """The line of the original at which one of the output stands."""
    for _, first, last, begin, end in opcodes(old, new):
        if begin < line <= end:
            return max(1, min(first + line - begin, last))
    return len(old)
