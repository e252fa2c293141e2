"""What the fixes of several rules ask about statements."""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import Events
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import names_in
from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import (
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceExpression,
    ReplaceStatement,
    Template,
)

Place = ast.stmt


class Code:
    """The statements around one node."""

    def __init__(self, program: Program, node: ast.AST) -> None:
        self.program = program
        self.module = program.module
        self.events: Events = program.events
        self.node = node
        self.statement = self.module.statement_of(node)
        self.scope: Scope = self.module.scope_of(self.statement)

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Byte range of a node."""
        return self.module.span(node)

    def source(self, node: ast.AST) -> str:
        """The text of a node."""
        return self.module.source(node)

    def is_here(self, node: ast.AST) -> bool:
        """Whether `node` is evaluated in the same scope."""
        return self.module.scope_of(node) is self.scope

    def sees(self, expr: ast.expr) -> bool:
        """Whether the names in `expr`, written elsewhere, mean the same here."""
        there = self.module.scope_of(expr)
        names = names_in(expr)
        if there is self.scope or all(
            self.scope.lookup(n) is there.lookup(n) for n in names
        ):
            return True
        same_class = self.program.graph.class_around(
            there
        ) is self.program.graph.class_around(self.scope)
        return same_class and names == {there.self_name} == {
            self.scope.self_name
        }

    def alone(self, statement: ast.stmt | None = None) -> bool:
        """Whether the statement is an expression by itself, so that it can go."""
        return isinstance(statement or self.statement, ast.Expr)

    def block(self, statement: ast.stmt | None = None) -> list[ast.stmt]:
        """The siblings of the statement, with itself."""
        return self.module.block_of(statement or self.statement)

    def after(self, statement: ast.stmt) -> list[ast.stmt]:
        """The siblings behind a statement."""
        block = self.block(statement)
        return block[
            next(i for i, s in enumerate(block) if s is statement) + 1 :
        ]

    def before(self, statement: ast.stmt) -> list[ast.stmt]:
        """The siblings above a statement, nearest first."""
        block = self.block(statement)
        return block[: next(i for i, s in enumerate(block) if s is statement)][
            ::-1
        ]

    def calls(self, what: EventKind) -> list[ast.Call]:
        """Calls in this scope that are such an event, in source order."""
        found = [
            c
            for c in self.scope.calls
            if self.events.what(c, self.scope) == what
        ]
        return sorted(found, key=lambda c: (c.lineno, c.col_offset))

    def is_event(self, statement: ast.stmt, what: EventKind) -> bool:
        """Whether a statement is such a call, by itself."""
        return (
            isinstance(statement, ast.Expr)
            and self.events.what(statement.value, self.scope) == what
        )

    def guarded(
        self, block: list[ast.stmt], what: EventKind
    ) -> ast.stmt | None:
        """The event statement right in the body of an `if` of this block."""
        for statement in block:
            if isinstance(statement, ast.If):
                for inner in statement.body:
                    if self.is_event(inner, what):
                        return inner
        return None

    def remove(self, statement: ast.stmt) -> Edit:
        """The statement goes."""
        return ReplaceStatement(self.span(statement))

    def move_after(
        self, anchor: ast.stmt, *statements: ast.stmt
    ) -> tuple[Edit, ...]:
        """Statements go behind another one."""
        moved = tuple(Template("$0", (self.span(s),)) for s in statements)
        return (
            *(self.remove(s) for s in statements),
            InsertAfter(self.span(anchor), moved),
        )

    def move_before(
        self, anchor: ast.stmt, *statements: ast.stmt
    ) -> tuple[Edit, ...]:
        """Statements go above another one."""
        moved = tuple(Template("$0", (self.span(s),)) for s in statements)
        return (
            *(self.remove(s) for s in statements),
            InsertBefore(self.span(anchor), moved),
        )

    def add_after(self, anchor: ast.stmt, text: str) -> Edit:
        """A new statement behind another one."""
        return InsertAfter(self.span(anchor), (Template(text),))

    def add_before(self, anchor: ast.stmt, text: str) -> Edit:
        """A new statement above another one."""
        return InsertBefore(self.span(anchor), (Template(text),))

    def replace(self, expr: ast.expr, text: str, *parts: ast.expr) -> Edit:
        """An expression becomes another one; `$0` is the first of `parts`."""
        return ReplaceExpression(
            self.span(expr), Template(text, tuple(self.span(p) for p in parts))
        )


def receiver(call: ast.AST) -> ast.expr:
    """`x` of `x.f(...)`."""
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    return call.func.value
