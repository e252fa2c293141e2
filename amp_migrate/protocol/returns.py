"""What a call gives back: a value with a history, or a name that its caller knows already."""

from __future__ import annotations

import ast

from amp_migrate.protocol.frames import Frame, identity
from amp_migrate.protocol.paths import NOTHING, Path, Val
from amp_migrate.protocol.values import Evaluation


def returned(
    expr: ast.expr, evaluation: Evaluation, path: Path, frame: Frame
) -> Val:
    """What a function returns, told in terms that hold behind it."""
    value = evaluation.value(expr, path, frame)
    if value is not NOTHING or not isinstance(expr, ast.Name):
        return value
    name = identity(expr, frame, path)
    home = f"{frame.scope.qualname}:"
    if name is None or name.startswith(home) or ":" not in name:
        return NOTHING
    return Val(text=name)
