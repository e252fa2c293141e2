"""Functions of a class that are no methods, though nothing marks them as static: they are called
through the name of the class alone, with something else than an object of it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.queries import nodes_in

if TYPE_CHECKING:
    from amp_migrate.model.syntax.module import Function, Module


def is_plain(
    module: Module, owner: ast.ClassDef, function: Function, first: str
) -> bool:
    """Whether `Engine._forward(self.model, batch)` is how a file calls `def _forward(model, batch)`
    of a class, and nothing of the class is asked of what it calls `model`.
    """
    if f"{owner.name}.{function.name}(" not in module.text:
        return False
    calls = [
        node
        for node in nodes_in(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == function.name
    ]
    return all(_is_through(one, owner, first) for one in calls) and not (
        _asked_of(function, first) & _held_by(owner)
    )


def _is_through(call: ast.Call, owner: ast.ClassDef, first: str) -> bool:
    assert isinstance(call.func, ast.Attribute)
    named = getattr(call.func.value, "id", None) == owner.name
    given = getattr(call.args[0], "id", None) if call.args else first
    return named and given != first


def _asked_of(function: Function, first: str) -> set[str]:
    return {
        node.attr
        for node in nodes_in(function)
        if isinstance(node, ast.Attribute)
        and getattr(node.value, "id", None) == first
    }


def _held_by(owner: ast.ClassDef) -> set[str]:
    """What a class defines, and what is stored into objects in it."""
    stored = {
        node.attr
        for node in nodes_in(owner)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return stored | {getattr(one, "name", "") for one in owner.body}
