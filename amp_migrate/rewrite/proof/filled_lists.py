"""Lists that a program makes empty and fills: what is taken out of one is what was put into it."""

from __future__ import annotations

import ast

from amp_migrate.model.dataflow.sources import put_into
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope

_TAKES = ("pop", "popleft")
_MAKES = ("list", "deque")


def given_to_list(
    program: Program, taken: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    """All that is put into the list of `kept[-1]` or `kept.pop()`; nothing where there may be
    more.
    """
    held = _list_of(taken)
    dotted = dotted_name(held) if held is not None else None
    if held is None or dotted is None:
        return []
    bindings = program.reaching.at(held, dotted).bindings
    if not bindings:
        return []
    if not all(
        one.how == "assign" and _is_empty(one.value) for one in bindings
    ):
        return []
    if _is_filled_by_others(program, dotted.rpartition(".")[2]):
        return []
    put = put_into(program, held, scope)
    return [(value, where) for _, value, where in put]


def _list_of(taken: ast.expr) -> ast.expr | None:
    if isinstance(taken, ast.Subscript):
        is_part = isinstance(taken.slice, ast.Slice)
        return None if is_part else taken.value
    func = taken.func if isinstance(taken, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr in _TAKES:
        return func.value
    return None


def _is_empty(value: ast.expr | None) -> bool:
    """`[]`, `list()`, `deque(maxlen=2)`"""
    if isinstance(value, ast.List):
        return not value.elts
    if not isinstance(value, ast.Call) or value.args:
        return False
    name = dotted_name(value.func) or ""
    return name.rpartition(".")[2] in _MAKES


def _is_filled_by_others(program: Program, name: str) -> bool:
    """Whether something is put into an attribute of that name from outside of its class."""
    for scope in program.module.scopes.values():
        for key in scope.stored:
            holder, _, last = key.rpartition(".")
            if last == name and holder not in ("", "self"):
                return True
    return False
