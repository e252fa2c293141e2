"""Names that may hold a dict of models, and no model: `models` of `models["generator"]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.classes.given_classes import given_values
from amp_migrate.model.devices.sources import given_back
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 3
_DISPLAYS = (ast.Dict, ast.DictComp)
_VIEWS = frozenset(("items", "keys", "values"))


def may_be_dict(
    program: Program, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether an expression is a dict, or a name is used as one around there or where callers in
    sight pass it: what has entries by name and is no class in sight or of a library has no
    `parameters()`, whatever a call of that says which nobody may reach.
    """
    if isinstance(expr, _DISPLAYS):
        return True
    if not deep:
        return False
    if isinstance(expr, ast.Call):
        return any(
            may_be_dict(home, one, inner, deep - 1)
            for home, one, inner in given_back(program, expr, scope)
        )
    name = dotted_name(expr)
    if name is None:
        return False
    value = program.values.of(expr, scope)
    is_known = value.cls or value.foreign or value.name
    if not is_known and _is_used_as_dict(program, name, scope):
        return True
    return any(
        may_be_dict(program, given, where, deep - 1)
        for binding in program.reaching.at(expr, name).bindings
        for given, where in given_values(program, binding, scope)
    )


def _is_used_as_dict(program: Program, name: str, scope: Scope) -> bool:
    """Whether a body reads entries of a name, or of what it keeps it as."""

    def found() -> bool:
        nodes = [node for one in scope.body for node in nodes_in(one)]
        names = {name, *_kept_as(name, nodes)}
        return any(_read_as_dict(node) in names for node in nodes)

    return program.remembered((_is_used_as_dict, name, scope), found)


def _kept_as(name: str, nodes: list[ast.AST]) -> Iterator[str]:
    """`self.models` of `self.models = models`."""
    for node in nodes:
        if isinstance(node, ast.Assign) and dotted_name(node.value) == name:
            yield from filter(None, map(dotted_name, node.targets))


def _read_as_dict(node: ast.AST) -> str | None:
    """What an entry with a name is read of, `models["net"]`, or all of them, `models.items()`."""
    if isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return dotted_name(node.value) if isinstance(key, str) else None
    if isinstance(node, ast.Call) and not node.args and not node.keywords:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _VIEWS:
            return dotted_name(func.value)
    return None
