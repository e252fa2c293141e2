"""Functions that save what they are handed."""

from __future__ import annotations

import ast
from typing import TypeGuard

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.patterns import pattern

_SAVER = pattern(
    r"(?i)(^|_)(save|store|write|dump).*(checkpoint|ckpt|state|model)|^save$"
)
_WORD = pattern(r"(?i)scal|amp")


def is_handed_on(
    parent: ast.AST,
    state: ast.expr,
) -> TypeGuard[ast.Call]:
    """`save_checkpoint(path, model.state_dict(), optimizer.state_dict())`, with nothing of the
    scaler among the arguments.
    """
    if not isinstance(parent, ast.Call) or state not in parent.args:
        return False
    name = (dotted_name(parent.func) or "").rpartition(".")[2]
    given = [*parent.args, *(one.value for one in parent.keywords)]
    return (
        bool(_SAVER.search(name))
        and any(_is_models(one) for one in given)
        and not any(_WORD.search(ast.unparse(one)) for one in given)
    )


def _is_models(expr: ast.expr) -> bool:
    """The state of anything but an optimizer, which stands beside it in a checkpoint."""
    return (
        isinstance(expr, ast.Call)
        and isinstance(expr.func, ast.Attribute)
        and expr.func.attr == "state_dict"
        and "optim" not in ast.unparse(expr.func.value).lower()
    )
