"""Classes that are looked up in a module by a name that only the run knows:
`getattr(models, name)`, `models.__dict__[name]`, `vars(models)[name]`.
"""

from __future__ import annotations

import ast

from amp_migrate.model.names import dotted_name


def module_searched(expr: ast.expr) -> ast.expr | None:
    """The module of `getattr(module, name)`, `module.__dict__`, `vars(module)`, and of an item of
    the latter; None for other expressions.
    """
    if isinstance(expr, ast.Subscript):
        return (
            None
            if isinstance(expr.value, ast.Subscript)
            else module_searched(expr.value)
        )
    if isinstance(expr, ast.Attribute):
        return expr.value if expr.attr == "__dict__" else None
    if (
        isinstance(expr, ast.Call)
        and expr.args
        and dotted_name(expr.func) in ("getattr", "vars")
    ):
        return expr.args[0]
    return None
