"""Statements that may fail, and one that does not."""

from __future__ import annotations

import ast


def is_try(statement: ast.stmt) -> bool:
    is_star = type(statement).__name__ == "TryStar"  # not before Python 3.11
    return is_star or isinstance(statement, ast.Try)


def is_unscaling(statement: ast.stmt) -> bool:
    """`scaler.unscale_(optimizer)`"""
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "unscale_"
