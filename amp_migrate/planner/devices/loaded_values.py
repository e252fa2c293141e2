"""What comes whole out of a file: nothing in sight tells its device."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.queries import nodes_in


def is_loaded_in(program: Program, arm: Iterable[ast.AST], name: str) -> bool:
    """Whether an arm of a branch binds `name` to something out of a file, as in
    `model = torch.load(path)["model"]`.
    """
    return any(
        isinstance(node, ast.Assign)
        and [dotted_name(target) for target in node.targets] == [name]
        and _is_loaded(program, node.value)
        for statement in arm
        for node in nodes_in(statement)
    )


def _is_loaded(program: Program, value: ast.expr) -> bool:
    while isinstance(value, (ast.Subscript, ast.Attribute)):
        value = value.value
    if isinstance(value, ast.Call):
        return program.canonical(value.func) == "torch.load"
    if not isinstance(value, ast.Name):
        return False
    reach = program.reaching.at(value, value.id).bindings
    return bool(reach) and all(
        isinstance(one.value, ast.Call)
        and program.canonical(one.value.func) == "torch.load"
        for one in reach
    )
