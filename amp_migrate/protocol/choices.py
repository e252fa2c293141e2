"""Choices between models: an `if` whose arms run different ones with gradients."""

from __future__ import annotations

import ast
from collections.abc import Callable

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import calls_in


class Choices:
    """Answers for the statements of one program, each asked once."""

    def __init__(
        self, program: Program, cuts: Callable[[ast.With], bool]
    ) -> None:
        """`cuts`: whether what runs in a `with` carries no gradients."""
        self.program = program
        self._cuts = cuts
        self._known: dict[int, bool] = {}

    def differ(self, statement: ast.stmt, scope: Scope) -> bool:
        """Whether a loss behind an `if` comes from other models on the one way than on the
        other.
        """
        if not isinstance(statement, ast.If):
            return False
        key = id(statement)
        if key not in self._known:
            ours = self._run_by(statement.body, scope)
            self._known[key] = ours != self._run_by(statement.orelse, scope)
        return self._known[key]

    def _run_by(self, block: list[ast.stmt], scope: Scope) -> set[str]:
        """The models that a block calls, as they are written."""
        return {
            ast.unparse(call.func).removesuffix(".forward")
            for statement in block
            for call in calls_in(statement)
            if self.program.effects.is_forward(call, scope)
            and not self._is_cut(call, statement)
        }

    def _is_cut(self, call: ast.Call, statement: ast.stmt) -> bool:
        """Whether no gradients come through what a call gives, as far as its statement tells."""
        for above in self.program.module.ancestors(call):
            match above:
                case ast.Attribute(attr="detach"):
                    return True
                case ast.With() if self._cuts(above):
                    return True
            if above is statement:
                break
        return False
