"""One file of a rewritten program, as a program of its own, and what is not proved in it."""

from __future__ import annotations

import ast
import builtins

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module
from amp_migrate.records import NamedTuple
from amp_migrate.rewrite.proof.facts import Introduced
from amp_migrate.rewrite.proof.forms import Forms


class Unproved(NamedTuple):
    """An added expression that may fail; `line` is 1-based and counts in the output."""

    path: str
    scope: str
    line: int
    expression: str
    why: str


class RewrittenFile:
    """What all that is asked about the additions to one file needs."""

    def __init__(
        self, program: Program, file: Module, introduced: Introduced
    ) -> None:
        self.program = program
        self.file = file
        self.introduced = introduced
        self.forms = Forms(introduced)

    def is_bound(self, node: ast.expr, dotted: str) -> bool:
        """Whether a dotted name has a value at a node, on every path to it."""
        return hasattr(builtins, dotted) or self.program.reaching.is_bound(
            node, dotted
        )

    def failure(self, node: ast.expr, why: str) -> Unproved:
        """Why an expression is not proved."""
        scope = self.program.module.scope_of(node)
        return Unproved(
            self.file.path, scope.qualname, node.lineno, ast.unparse(node), why
        )
