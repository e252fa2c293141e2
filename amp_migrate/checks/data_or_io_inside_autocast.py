"""The region begins with statements that only move or prepare data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import Region, regions
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.queries import calls_in

RULE = Rule("data-or-io-inside-autocast", severity="info", default=False)
_MOVES = {"to", "cuda", "cpu", "pin_memory"}


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find leading statements of a region that move data."""
    message = (
        "moving data needs no autocast; do it above the autocast block, which is then "
        "easier to check"
    )
    for region in regions(program):
        moved = _leading(region)
        if (
            moved
            and not region.off
            and isinstance(region.node, ast.With)
            and len(moved) < len(region.node.body)
        ):
            code = Code(program, moved[0])
            edits = code.move_before(region.node, *moved)
            yield finding_at(
                program,
                moved[0],
                RULE,
                message,
                fix=Fix("safe", ("move it above the autocast block"), edits),
            )


def _leading(region: Region) -> list[ast.stmt]:
    """The statements that only move data, at the start of a region."""
    found: list[ast.stmt] = []
    for statement in region.blocks():
        if not isinstance(statement, ast.Assign) or not _moves(statement.value):
            break
        found.append(statement)
    return found


def _moves(expr: ast.expr) -> bool:
    if isinstance(expr, ast.Tuple):
        return bool(expr.elts) and all(_moves(e) for e in expr.elts)
    func = expr.func if isinstance(expr, ast.Call) else None
    return (
        isinstance(func, ast.Attribute)
        and func.attr in _MOVES
        and not calls_in(func)
    )
