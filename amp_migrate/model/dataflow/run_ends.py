"""Calls after which nothing of a program runs."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import Module

_FUNCTIONS = frozenset({"sys.exit", "os._exit", "os.abort"})
_BUILTINS = frozenset({"exit", "quit"})


def ends_run(module: Module, node: ast.AST) -> bool:
    """`sys.exit(1)`, `quit()`"""
    if not isinstance(node, ast.Call):
        return False
    func = node.func
    builtin = isinstance(func, ast.Name) and func.id in _BUILTINS
    return builtin or module.canonical(func) in _FUNCTIONS
