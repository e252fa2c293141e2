"""The place where the switch of AMP is to be read, and what has a value there."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from amp_migrate.model.dataflow.earlier_statements import (
    has_run_at_calls,
    one_has_run,
)
from amp_migrate.model.dataflow.reach import Reach
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.regions.loss_flow import header


@dataclass(frozen=True)
class ReadingPlace:
    """Where the switch is to be read."""

    program: Program
    scope: Scope
    node: ast.stmt
    after: bool

    def bindings(self, text: str) -> tuple[Binding, ...]:
        """What may have given the dotted name its value here."""
        return self._reach(text).bindings

    def is_bound(self, text: str) -> bool:
        """Whether the dotted name has a value here on every path."""
        return self.program.reaching.is_bound(self.node, text, after=self.after)

    def has_read(self, expr: ast.expr) -> bool:
        """Whether the statement itself, that has run by then, reads it: what stands in its blocks
        may not have run.
        """
        roots = header(self.node) if self.after else ()
        return any(expr in nodes_in(root) for root in roots)

    def _reach(self, text: str) -> Reach:
        reaching = self.program.reaching
        return (
            reaching.after(self.node, text)
            if self.after
            else reaching.at(self.node, text)
        )

    def can_read(self, text: str, *, whole: bool = True) -> bool:
        """Whether all names of an expression have values here, and, where it is read `whole`,
        their attributes.
        """
        names = [
            name
            for node in nodes_in(ast.parse(text, mode="eval"))
            if isinstance(node, (ast.Name, ast.Attribute))
            and (name := dotted_name(node))
        ]
        if whole:
            names = [
                n
                for n in names
                if not any(o.startswith(f"{n}.") for o in names)
            ]
        else:
            names = [
                n
                for n in names
                if "." not in n or n.startswith(f"{self.scope.self_name}.")
            ]
        return all(
            self.is_bound(name) or hasattr(builtins, name) for name in names
        )

    def follows(self, node: ast.AST) -> bool:
        """Whether the statement of `node` has run, unconditionally, when this place is reached."""
        return self.follows_one([node])

    def follows_one(self, nodes: Iterable[ast.AST]) -> bool:
        """Whether one of their statements has: of a branch, in whichever arm."""
        statements = list(self._plain_statements(nodes))
        return one_has_run(self.program, statements, self.node)

    def follows_at_calls(self, nodes: Iterable[ast.AST]) -> bool:
        """The same of one of some statements of other methods, whenever this one is called."""
        statements = list(self._plain_statements(nodes))
        return has_run_at_calls(self.program, statements, self.scope)

    def _plain_statements(self, nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
        for statement in map(self.program.module.statement_of, nodes):
            if isinstance(statement, (ast.Assign, ast.Expr, ast.AnnAssign)):
                yield statement
