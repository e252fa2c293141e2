"""What calls give: a value with a history, a name that the caller knows already, an object that
keeps what it was made of.
"""

from __future__ import annotations

import ast

from amp_migrate.protocol.aliases import of_construction
from amp_migrate.protocol.frames import Frame, identity, place
from amp_migrate.protocol.paths import NOTHING, Path, Val
from amp_migrate.protocol.summaries import RETURN
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


def assigned(
    statement: ast.Assign | ast.AnnAssign | ast.AugAssign,
    evaluation: Evaluation,
    path: Path,
    frame: Frame,
) -> Path:
    """The path behind an assignment; `tools.scaler` of `tools = Tools(scaler)` is the scaler."""
    after = evaluation.assigned(statement, path, frame)
    made = statement.value
    if not isinstance(statement, ast.Assign) or not isinstance(made, ast.Call):
        return after
    own = place(statement.targets[0], frame, path)
    for kept, given in of_construction(evaluation.program, made, frame.scope):
        same = identity(given, frame, path)
        if own is not None and same is not None:
            after.env[f"{own}.{kept}"] = Val(text=same)
    return after


def without_returns(path: Path) -> Path:
    """What calls have returned is of no use behind their statement."""
    old = [key for key in path.env if key.startswith(RETURN)]
    if not old:
        return path
    path = path.fork()
    for key in old:
        del path.env[key]
    return path
