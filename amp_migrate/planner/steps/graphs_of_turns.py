"""Which statements run in each turn of the loop that steps: a graph from before it would be
used up.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, Scope

_ENDS = EventKind.STEP | EventKind.ZERO_GRAD


class Turns:
    """Answers for the backward calls of one scope."""

    def __init__(
        self, program: Program, scope: Scope, backwards: list[ast.Call]
    ) -> None:
        self.program = program
        self.scope = scope
        self.backwards = backwards

    def holds(self, statement: ast.stmt, at: ast.stmt) -> bool:
        """Whether a statement runs in each turn in which the one at `at` goes backward."""
        if self._keeps_graph:
            return True
        above = self.program.module.ancestors
        loops = (a for a in above(at) if isinstance(a, LOOPS))
        loop = next((a for a in loops if self._steps(a)), None)
        return loop is None or any(a is loop for a in above(statement))

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
