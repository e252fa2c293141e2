"""What breaks in files that nobody named, and that no cast is written into: the loop is refused."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.refusal import Refusal
from amp_migrate.project.import_paths import resolved
from amp_migrate.project.module_graph import Project

_CUSTOM = "custom-function-without-custom_fwd-bwd"
_REMEDY = "give amp-migrate this file too, or its folder"


def refuse_locked_files(
    hazards: Hazards, project: Project, node: ast.AST
) -> None:
    """Raise Refusal where what a loop runs must change in a file that may not."""
    program = hazards.program
    for edit, rule in hazards.casts.items():
        file, begins = program.module.place(edit.target)
        text = file.text.encode()[: edit.target.start - begins]
        line = text.count(b"\n") + 1
        _refuse(program, project, file, line, rule, node)
    for statement, rule in hazards.islands.items():
        file = program.module.scope_of(statement).module
        _refuse(program, project, file, statement.lineno, rule, node)
    for custom in hazards.functions:
        file = custom.program.module.scope_of(custom.node).module
        line = custom.node.lineno
        _refuse(program, project, file, line, _CUSTOM, node)


def _refuse(
    program: Program,
    project: Project,
    file: Module,
    line: int,
    rule: str,
    node: ast.AST,
) -> None:
    real = resolved(file.path)
    if not project.imports or real in project.writable:
        return
    home = program.module.scope_of(node).module
    folder = Path(home.path).absolute().parent
    place = f"{os.path.relpath(real, resolved(str(folder)))}:{line}"
    message = f"{place} breaks in half precision: {_REMEDY}"
    raise Refusal(rule, node, message)
