"""Classes that are looked up in a module by a name that only the run knows:
`getattr(models, name)`, `models.__dict__[name]`, `vars(models)[name]`.
"""

from __future__ import annotations

import ast
import re

from amp_migrate.model.naming.names import dotted_name


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


def name_searched(call: ast.Call) -> re.Pattern[str] | None:
    """The names that `getattr(module, "conv%dd" % n)` may look up."""
    if dotted_name(call.func) != "getattr" or len(call.args) < 2:
        return None
    pattern = _pattern(call.args[1])
    return re.compile(pattern) if pattern.strip(_ANY) else None


_ANY = ".*"


def _pattern(expr: ast.expr) -> str:
    """What a text may be, of which parts are only known when it runs."""
    if isinstance(expr, ast.Constant) and isinstance(expr.value, str):
        return re.escape(expr.value)
    if isinstance(expr, ast.JoinedStr):
        return "".join(map(_pattern, expr.values))
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Add):
        return _pattern(expr.left) + _pattern(expr.right)
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Mod):
        return re.sub("%[ds]", _ANY, _pattern(expr.left))
    return _ANY
