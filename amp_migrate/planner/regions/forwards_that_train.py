"""Modules whose forward steps: made by a name in a text, they run wherever a loss may run, under
the autocast of another loop too.
"""

from __future__ import annotations

import ast
from pathlib import Path

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.planner.refusal import Refusal
from amp_migrate.project.import_paths import resolved
from amp_migrate.project.module_graph import Project


def refuse_forward(
    program: Program, project: Project, scope: Scope, backward: ast.Call
) -> None:
    """Raise Refusal for a backward pass in the forward of a module that no file in sight makes."""
    forward = _forward_around(program, scope)
    if forward is None:
        return
    owner = program.module.scopes[forward].owner
    cls = owner.node if owner is not None else None
    if isinstance(cls, ast.ClassDef) and not _is_named(program, project, cls):
        raise Refusal(
            "unsupported-shape",
            backward,
            f"the backward pass stands in `{cls.name}.forward`, and no file in sight makes a "
            f"`{cls.name}` by that name: what calls the module may have it under autocast, as "
            "its loss",
        )


def _forward_around(program: Program, scope: Scope) -> Function | None:
    here: Scope | None = scope
    while here is not None:
        node = here.node
        if isinstance(node, FUNCTIONS) and node.name == "forward":
            found = program.effects.is_module_method(node)
            return node if found else None
        here = here.parent
    return None


def _is_named(program: Program, project: Project, cls: ast.ClassDef) -> bool:
    """Whether a file makes an object of the class, or may: one that imports its name."""
    graph, file = program.graph, program.module.scopes[cls].module
    if any(graph.constructions(heir) for heir in graph.heirs(cls)):
        return True
    here = resolved(file.path)
    if project.users(str(Path(here)), cls.name):
        return True
    near = file.neighbours
    return near is not None and near.user_of(cls.name) is not None
