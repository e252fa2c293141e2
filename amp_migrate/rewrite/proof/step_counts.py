"""How often a function goes backward, unscales, steps and updates, on each of its paths: a fix may
move these and add what was missing, and does none of them twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    LOOPS,
    Scope,
    blocks,
    heads,
    shallow,
)
from amp_migrate.records import NamedTuple

_MOST = 64
"""Counts of one function; a function with more is not judged."""


class Counts(NamedTuple):
    """Of one path, each loop taken once."""

    backwards: int = 0
    unscales: int = 0
    steps: int = 0
    updates: int = 0

    def plus(self, other: Counts) -> Counts:
        """One path behind another."""
        return Counts(
            *(one + two for one, two in zip(self, other, strict=True))
        )


Paths = frozenset[Counts]


class Ways(NamedTuple):
    """The paths through a block."""

    on: Paths
    """Those that go on behind it."""
    out: Paths = frozenset()
    """Those that leave the loop or the function in it."""


_NONE: Paths = frozenset({Counts()})
_OF = {
    EventKind.BACKWARD: Counts(backwards=1),
    EventKind.UNSCALE: Counts(unscales=1),
    EventKind.SCALER_STEP: Counts(steps=1),
    EventKind.BARE_STEP: Counts(steps=1),
    EventKind.UPDATE: Counts(updates=1),
}


def miscounted(before: str, after: str, path: str) -> str | None:
    """What a function does more often than it did, in words; None where there is none."""
    old, new = _of_program(before, path), _of_program(after, path)
    for scope, paths in new.items():
        if scope in old:
            what = _grown(old[scope], paths)
            if what is not None:
                return f"{scope} would {what}"
    return None


def _grown(old: Paths, new: Paths) -> str | None:
    if {one.backwards for one in old} != {one.backwards for one in new}:
        return "go backward as often no more"
    steps = max(one.steps for one in new)
    if steps > max(one.steps for one in old):
        return "step more often"
    if max(one.updates for one in new) > max(
        steps, *(one.updates for one in old)
    ):
        return "update more often"
    if max(one.unscales for one in new) > max(
        steps, *(one.unscales for one in old)
    ):
        return "unscale more often"
    return None


def _of_program(text: str, path: str) -> dict[str, Paths]:
    program = Program(text, path)
    found: dict[str, Paths] = {}
    for scope in program.module.scopes.values():
        if isinstance(scope.node, (ast.Module, *FUNCTIONS)):
            ways = _of_block(program, scope.body, scope)
            if ways is not None:
                found[scope.qualname] = ways.on | ways.out
    return found


def _of_block(
    program: Program, block: Iterable[ast.stmt], scope: Scope
) -> Ways | None:
    found: Ways | None = Ways(_NONE)
    for statement in block:
        found = _behind(found, _of_statement(program, statement, scope))
    return found


def _of_statement(
    program: Program, statement: ast.stmt, scope: Scope
) -> Ways | None:
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return Ways(_NONE)
    inner = list(blocks(statement))
    own = _of_nodes(program, heads(statement) if inner else (statement,), scope)
    if isinstance(statement, (ast.Continue, ast.Break, ast.Return, ast.Raise)):
        return Ways(frozenset(), own)
    found: Ways | None = Ways(own)
    if isinstance(statement, (ast.If, ast.Match)):
        arms = [_of_block(program, block, scope) for block in inner]
        whole = isinstance(statement, ast.If) and bool(statement.orelse)
        return _behind(
            found, _either([*arms, *([] if whole else [Ways(_NONE)])])
        )
    for block in inner:
        found = _behind(found, _of_block(program, block, scope))
    if found is not None and isinstance(statement, LOOPS):
        return Ways(found.on | found.out)
    return found


def _of_nodes(
    program: Program, parts: Iterable[ast.AST], scope: Scope
) -> Paths:
    total = Counts()
    for part in parts:
        for node in shallow(part):
            kind = (
                program.events.what(node, scope)
                if isinstance(node, ast.Call)
                else None
            )
            total = total.plus(_OF[kind]) if kind in _OF else total
    return frozenset({total})


def _behind(first: Ways | None, then: Ways | None) -> Ways | None:
    if first is None or then is None:
        return None
    on = frozenset(one.plus(two) for one in first.on for two in then.on)
    out = first.out | frozenset(
        one.plus(two) for one in first.on for two in then.out
    )
    return Ways(on, out) if len(on) + len(out) <= _MOST else None


def _either(arms: list[Ways | None]) -> Ways | None:
    known = [one for one in arms if one is not None]
    if len(known) < len(arms):
        return None
    return Ways(
        frozenset().union(*(one.on for one in known)),
        frozenset().union(*(one.out for one in known)),
    )
