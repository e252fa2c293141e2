"""Keys of a dict that are asked for one of them, or shown."""

from __future__ import annotations

import ast
from typing import TypeGuard

from amp_migrate.model.program import Program

WRITTEN = frozenset(("print", "str", "repr"))
SHOWN = WRITTEN | set("isinstance type bool id hasattr callable".split())
_LISTED = frozenset("set frozenset list tuple sorted".split())


def is_only_asked(program: Program, around: ast.AST) -> bool:
    """`"ema" in state.keys()`, `print(state.keys())`"""
    if _asks_for_one(around) or lists_to_ask(program, around):
        return True
    func = around.func if isinstance(around, ast.Call) else None
    is_shown = isinstance(func, ast.Name) and func.id in SHOWN
    return isinstance(around, ast.FormattedValue) or is_shown


def lists_to_ask(program: Program, call: ast.AST) -> bool:
    """`"ema" in list(state)`, `"ema" in set(state.keys())`"""
    func = call.func if isinstance(call, ast.Call) else None
    if not isinstance(func, ast.Name) or func.id not in _LISTED:
        return False
    above = program.module.parents.get(call)
    return _asks_for_one(above) and above.left is not call


def _asks_for_one(node: ast.AST | None) -> TypeGuard[ast.Compare]:
    return isinstance(node, ast.Compare) and all(
        isinstance(one, (ast.In, ast.NotIn)) for one in node.ops
    )
