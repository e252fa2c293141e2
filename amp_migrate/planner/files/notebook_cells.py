"""Cells of a notebook: a `with` block cannot begin in one and end in another."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.program import Program
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.statement_runs import Region
from amp_migrate.project.notebook_cells import is_separator


def check_cells(regions: Iterable[Region]) -> None:
    """Refuse a region that would span cells."""
    for region in regions:
        if spans_cells(region):
            message = (
                f"its forward is in line {region.first.lineno}, and no `with` block spans two "
                "cells: put the forward and "
                "the loss into one cell"
            )
            raise Refusal("notebook", region.last, message)


def spans_cells(region: Region) -> bool:
    """Whether a mark between two cells stands inside a region."""
    return any(_is_mark(statement) for statement in region.statements())


def in_other_cells(
    program: Program, earlier: ast.stmt, later: ast.stmt
) -> bool:
    """Whether two statements of a notebook stand in different cells."""
    file = next(
        (
            a
            for a in program.module.ancestors(earlier)
            if isinstance(a, ast.Module)
        ),
        None,
    )
    body = file.body if file else []
    return any(
        earlier.lineno < s.lineno < later.lineno and _is_mark(s) for s in body
    )


def _is_mark(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return is_separator(f'"{text}"')
    return False
