"""Optimizers that are saved as objects, not by their states: `torch.save({"optimizer": opt})`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.checkpoints.whole_reads import saved_places
from amp_migrate.model.program import Program

_SAVE = "torch.save"


def saved_whole(program: Program) -> list[ast.expr]:
    """Where optimizers stand in what is saved."""
    if _SAVE.rpartition(".")[2] not in program.module.text:
        return []
    return program.remembered(saved_whole, lambda: list(_found(program)))


def _found(program: Program) -> Iterator[ast.expr]:
    for node in list(program.module.parents):
        if isinstance(node, ast.Dict):
            held = [one for one in node.values if _is_one(program, one)]
            if held and _is_saved(program, node):
                yield from held
        elif isinstance(node, ast.Call) and node.args[:1]:
            is_save = program.canonical(node.func) == _SAVE
            if is_save and _is_one(program, node.args[0]):
                yield node.args[0]


def _is_one(program: Program, expr: ast.expr) -> bool:
    scope = program.module.scope_of(expr)
    named = isinstance(expr, (ast.Name, ast.Attribute))
    return named and program.effects.is_optimizer(expr, scope)


def _is_saved(program: Program, made: ast.Dict) -> bool:
    return any(name == _SAVE for name, _ in saved_places(program, made))
