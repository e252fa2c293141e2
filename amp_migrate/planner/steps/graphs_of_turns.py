"""Which statements run in each turn of the loop that steps: a graph from before it would be
used up.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TypeAlias

from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, Scope
from amp_migrate.model.syntax.queries import names_in

_ENDS = EventKind.STEP | EventKind.ZERO_GRAD
_LISTS = (ast.List, ast.Tuple, ast.ListComp)
_Behind: TypeAlias = Callable[[ast.expr, ast.stmt], Iterable[ast.stmt]]


class Turns:
    """Answers for the backward calls of one scope."""

    def __init__(
        self,
        program: Program,
        scope: Scope,
        backwards: list[ast.Call],
        behind: _Behind,
    ) -> None:
        """`behind`: the statements that a value depends on."""
        self.program = program
        self.scope = scope
        self.backwards = backwards
        self._behind = behind

    def holds(self, statement: ast.stmt, at: ast.stmt) -> bool:
        """Whether a statement runs in each turn in which the one at `at` goes backward."""
        if self._keeps_graph:
            return True
        above = self.program.module.ancestors
        loops = (a for a in above(at) if isinstance(a, LOOPS))
        loop = next((a for a in loops if self._steps(a)), None)
        if loop is None or any(a is loop for a in above(statement)):
            return True
        return statement in self._made_for_each(loop)

    def _made_for_each(self, loop: ast.AST) -> list[ast.stmt]:
        """What makes the lists that a loop goes through, of which each turn has a part of its own:
        `for optimizer, loss in zip(optimizers, losses)`.
        """
        if not isinstance(loop, ast.For):
            return []
        reaching, found = self.program.reaching, []
        for name in names_in(loop.iter):
            for one in reaching.at(loop.iter, name).bindings:
                made = one.statement
                if not isinstance(one.value, _LISTS):
                    continue
                if isinstance(made, ast.stmt) and self._is_own(made):
                    found += [made, *self._behind(one.value, made)]
        return found

    def _is_own(self, statement: ast.stmt) -> bool:
        """Whether a statement stands in the body that is looked at: no list of the whole file."""
        return self.program.module.scope_of(statement) is self.scope

    @property
    def _keeps_graph(self) -> bool:
        """Whether a backward leaves its graph for another one."""
        keywords = (k for call in self.backwards for k in call.keywords)
        return any(
            k.arg == "retain_graph"
            and not (isinstance(k.value, ast.Constant) and not k.value.value)
            for k in keywords
        )

    def _steps(self, loop: ast.AST) -> bool:
        """Whether a loop ends a turn of the training: another one around it
        may go through epochs, one inside it through parts of a batch.
        """
        does = self.program.effects.of_statement(loop, self.scope)
        return bool(does & _ENDS)
