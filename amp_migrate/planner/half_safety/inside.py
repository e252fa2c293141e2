"""Where autocast will be on, once the planned regions are written."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.steps.effects import inner_statements
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.planner.half_safety.reach import perhaps_reachable


class Inside:
    """The statements of the regions, and the functions in sight that they run."""

    def __init__(
        self, program: Program, dtype: str, *, everywhere: bool = False
    ) -> None:
        """`everywhere`: all functions of the program run under autocast."""
        self.program = program
        self.dtype = dtype
        self.everywhere = everywhere
        self._nodes: set[ast.AST] = set()
        self._functions: set[ast.AST] = set()
        self._left: set[ast.AST] = set()
        self._found: dict[ast.AST, str | None] = {}

    def leave(self, statement: ast.stmt) -> None:
        """A statement gets an `autocast(enabled=False)` of its own."""
        self._left.add(statement)
        self._found.clear()

    def add(self, statements: Iterable[ast.stmt], scope: Scope) -> None:
        """A region of `scope` holds `statements`."""
        held = list(statements)
        self._found.clear()
        for top in held:
            self._nodes |= {top, *inner_statements(top)}
        for _, where in perhaps_reachable(self.program, held, scope):
            if where is not scope:
                self._functions.add(where.node)

    def at(self, node: ast.AST) -> str | None:
        """The dtype of the region that `node` runs in; None outside."""
        if node not in self._found:
            self._found[node] = self._at(node)
        return self._found[node]

    def _at(self, node: ast.AST) -> str | None:
        if self._left and any(one in self._left for one in self._up(node)):
            return None
        written = self.program.regions.at(node)
        if written is not None and written.enabled is False:
            return None
        found = self.own(node)
        if found is not None:
            return found
        for above in self.program.module.ancestors(node):
            if above in self._functions:
                return self.dtype
            if isinstance(above, FUNCTIONS):
                return self.dtype if self.everywhere else None
        return None

    def _up(self, node: ast.AST) -> Iterator[ast.AST]:
        yield node
        yield from self.program.module.ancestors(node)

    def own(self, node: ast.AST) -> str | None:
        """The same, of regions that are written around `node` in its own function."""
        if node in self._nodes:
            return self.dtype
        for above in self.program.module.ancestors(node):
            if above in self._nodes:
                return self.dtype
            if isinstance(above, FUNCTIONS):
                return None
        return None
