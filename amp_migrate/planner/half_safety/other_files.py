"""Hazards in other files of the project, as refusals that name the file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

from amp_migrate.model.program import Program
from amp_migrate.planner.half_safety.cast_edits import called_in
from amp_migrate.planner.refusal import Refusal, file_seen_from
from amp_migrate.project.import_paths import resolved
from amp_migrate.rewrite.edits import ReplaceExpression

_TIGHT = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


def in_other_file(
    here: Program,
    refusal: Refusal,
    node: ast.stmt,
    program: Program,
    ways: Iterable[str],
) -> Refusal:
    """A line means nothing without its file; `ways`: the files that led there."""
    path = file_seen_from(here, program)
    said = refusal.message
    told = (
        said
        if f"{Path(path).name}:" in said
        else f"{path}:{refusal.line}: {said}"
    )
    files = tuple(dict.fromkeys((*refusal.files, *ways)))
    return Refusal(refusal.reason, node, told, files)


def apart_elsewhere(
    here: Program,
    node: ast.stmt,
    program: Program,
    statement: ast.stmt,
    rule: str,
) -> Refusal:
    place = f"{file_seen_from(here, program)}:{statement.lineno}"
    is_lost = rule == "loses-precision"
    what = "loses too much in" if is_lost else "has no kernel for"
    message = (
        f"{place} {what} half precision: compute it with autocast switched off"
    )
    return Refusal(rule, node, message, (resolved(program.module.path),))


def cast_elsewhere(
    here: Program,
    node: ast.stmt,
    program: Program,
    edit: ReplaceExpression,
    rule: str,
) -> Refusal:
    """A hazard in another file is named, with the cast that mends it, for the user to write
    there.
    """
    source = program.module.text.encode()
    line = source[: edit.target.start].count(b"\n") + 1
    text = _receiver(source[edit.target.start : edit.target.end].decode())
    place = f"{file_seen_from(here, program)}:{line}"
    cast = f"{text}{called_in(edit)}"
    message = f"{place} breaks in half precision: write `{cast}` there, then run again"
    return Refusal(rule, node, message, files=(resolved(program.module.path),))


def _receiver(text: str) -> str:
    """An expression as it stands before a dot; of a long one the first line."""
    parsed = ast.parse(f"({text})", mode="eval").body
    first = text.split("\n", maxsplit=1)[0]
    return first if isinstance(parsed, _TIGHT) else f"({first})"


def second_order(program: Program, call: ast.Call) -> Refusal:
    """The files are planned together, where the gradients may be taken outside of autocast."""
    return Refusal(
        "double-backward",
        call,
        "gradients that are taken within the loss must be float32, and would be half here",
        (resolved(program.module.path),),
    )


def asked_together(refused: Sequence[Refusal]) -> Refusal:
    """The first of some refusals, with the files that all of them ask for."""
    first = refused[0]
    files = tuple(dict.fromkeys(file for one in refused for file in one.files))
    return Refusal(first.reason, first.node, first.message, files)
