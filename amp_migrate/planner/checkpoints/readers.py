"""Who reads a checkpoint as a whole, in the files of a program and near them."""

from __future__ import annotations

import ast
from pathlib import Path

from amp_migrate.model.checkpoints.whole_reads import (
    Reader,
    reader_of,
    reader_of_files,
    saved_places,
)
from amp_migrate.model.files.neighbours import program_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.project.module_graph import Project

_MOST = 40


def reader_in_project(
    program: Program, project: Project, made: ast.expr
) -> Reader | None:
    """Who would see that a checkpoint has a key more."""
    found = reader_of(program, made)
    places = saved_places(program, made)
    found = found or reader_of_files(program, made, places)
    linked = program.module.paths
    for file in sorted(_near(project, linked)) if found is None else ():
        other = program_of(file)
        if other is None:
            continue
        found = reader_of_files(other, made, places)
        if found is not None:
            return found
    return found


def _near(project: Project, linked: frozenset[str]) -> set[str]:
    """Other files that load something: those beside this program's, and those that it imports
    or is imported by.
    """
    near = {
        one for file in linked for one in (*project.helpers(file, _MOST), file)
    }
    near |= {one for file in linked for one in project.importers.get(file, ())}
    folders = {Path(file).parent for file in linked}
    loading = [
        file for file in project.with_method("load") if file not in linked
    ]
    found = [
        file for file in loading if file in near or Path(file).parent in folders
    ]
    return set(found[:_MOST])


def told(reader: Reader, scope: Scope) -> str:
    """Why a key more is not put into a checkpoint."""
    file = reader.program.module.scope_of(reader.node).module
    of_file = f" of {Path(file.path).name}" if file is not scope.module else ""
    return (
        f"line {reader.node.lineno}{of_file} may read this checkpoint as a whole, and a key more "
        "would change what it does"
    )
