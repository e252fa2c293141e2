"""Names that an import brings and that are bound to something else further down: `import loss`,
then `loss = loss.Loss(args)`. Up to there they stand for what was imported.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.scopes import Binding, Scope

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def is_import(head: str, scope: Scope, node: ast.expr | None = None) -> bool:
    """Whether nothing but imports sets a name: none at all, or none before `node`, which is
    evaluated in `scope`, is read.
    """
    home = scope.lookup(head)
    others = (
        [one for one in home.bindings[head] if one.how != "import"]
        if home is not None
        else []
    )
    if not others or node is None:
        return not others
    return scope is home and all(_is_later(one, node, home) for one in others)


def _is_later(binding: Binding, node: ast.expr, home: Scope) -> bool:
    """A body runs from top to bottom, but for loops; what is assigned is evaluated before."""
    statement = binding.statement
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return False
    parents = home.module.parents
    above = parents.get(statement)
    while above is not None and above is not home.node:
        if isinstance(above, _LOOPS) or above in home.module.scopes:
            return False
        above = parents.get(above)
    ends = (statement.end_lineno or 0, statement.end_col_offset or 0)
    return above is not None and (node.lineno, node.col_offset) < ends
