"""Names that a file defines more than once, as notebooks do: which definition a line sees."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import Module, Scope


def known_by_then(
    module: Module, found: list[ast.AST], expr: ast.expr, scope: Scope
) -> list[ast.AST]:
    """Without what is defined further down in the body that runs the expression: that body runs
    once from top to bottom, so it does not exist yet.
    """
    if len(found) < 2:
        return found
    earlier = [one for one in found if not _is_below(module, one, expr, scope)]
    return earlier or found


def _is_below(
    module: Module, defined: ast.AST, expr: ast.expr, scope: Scope
) -> bool:
    return (
        isinstance(defined, ast.stmt)
        and module.parents.get(defined) is scope.node
        and defined.lineno > expr.lineno
    )
