"""Names that a path leaves without a value: what reads one ends the path, as `loss` does behind
`if kind == "mse": loss = ... elif kind == "hinge": loss = ...` where neither holds.
"""

from __future__ import annotations

import ast
from collections.abc import Container

from amp_migrate.model.syntax.module import Scope, shallow


class BoundNames:
    """Answers for one body."""

    def __init__(self, scope: Scope) -> None:
        self._lines = {
            name: [getattr(one.statement, "lineno", 0) for one in bindings]
            for name, bindings in scope.bindings.items()
            if bindings and all(one.how == "assign" for one in bindings)
        }

    def keeps(self, statement: ast.stmt, bound: Container[str]) -> bool:
        """Whether all names that a statement reads have a value, where `bound` have one; those that
        are set further down may have it from an earlier turn of a loop.
        """
        return not any(
            self._is_missing(node, bound)
            for node in shallow(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        )

    def _is_missing(self, read: ast.Name, bound: Container[str]) -> bool:
        lines = self._lines.get(read.id, [])
        is_above = all(line < read.lineno for line in lines)
        return bool(lines) and is_above and read.id not in bound
