"""Parts of expressions that can be told by their form alone."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import Scope


def slice_begin(taken: ast.expr) -> int | None:
    """The place at which `x[1:]` begins."""
    if not isinstance(taken, ast.Slice) or taken.step is not None:
        return None
    lower = taken.lower
    if lower is None:
        return 0
    value = lower.value if isinstance(lower, ast.Constant) else None
    return value if isinstance(value, int) and value >= 0 else None


def is_text_or_list(expr: ast.expr) -> bool:
    """`"%s" % tensor` and `[tensor] * 3` are no tensors."""
    text = isinstance(expr, ast.Constant) and isinstance(
        expr.value, (str, bytes)
    )
    return text or isinstance(expr, (ast.JoinedStr, ast.List, ast.Tuple))


def is_out_of_sight(value: ast.expr, scope: Scope) -> bool:
    """`t` of `from module import *`, which may be torch itself: a module has the functions that
    are methods of its tensors.
    """
    return isinstance(value, ast.Name) and scope.lookup(value.id) is None
