"""Parts of expressions that can be told by their form alone."""

from __future__ import annotations

import ast


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
