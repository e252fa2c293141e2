"""`if`s without apex: conditions that are settled, branches that have become the same, branches
that are empty.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amp_migrate.apex.expressions import same
from amp_migrate.apex.original import is_pure
from amp_migrate.apex.result import (
    Result,
    block,
    edits_inside,
    edits_of,
    flattened,
    gone,
    joined,
    kept,
    plain_of,
    templates_of,
)
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.rewrite.edits import Edit, Template

if TYPE_CHECKING:
    from amp_migrate.apex.statements import Statements


@dataclass(eq=False)
class Arm:
    """One branch under a condition."""

    node: ast.If
    test: ast.expr
    """Without apex."""
    edits: tuple[Edit, ...]
    """Of the condition."""
    body: list[Result]
    negated: bool = False

    @property
    def changed(self) -> bool:
        return any(r.replaced or r.edits for r in self.body)


class Branches:
    """The `if` statements of one module."""

    def __init__(self, walk: Statements) -> None:
        self.walk = walk

    def chain(self, node: ast.If) -> Result:
        """An `if` with all its `elif`s."""
        arms, rest, cut = self._arms(node)
        count = len(arms)
        while arms and self._merges(arms[-1], rest):
            last = arms.pop()
            self.walk.seen.merged.add(last.node.test)
            rest = self._survivor(last.body, rest)
        if arms and self._is_idle(arms[-1], rest):
            arms[-1].negated = True
            arms[-1].body, rest = rest, []
            cut = True
        if len(arms) == count and not cut:
            return self._in_place(node, arms, rest)
        return self._anew(node, arms, rest)

    def _arms(self, node: ast.If) -> tuple[list[Arm], list[Result], bool]:
        """The branches whose conditions are open, the rest, and whether a settled one
        was dropped.
        """
        arms: list[Arm] = []
        cut = False
        here: ast.If = node
        expressions = self.walk.expressions
        while True:
            truth = expressions.truth(here.test)
            if truth is True and not self._does_without(here):
                return arms, self.walk.block(here.body), True
            truth = False if truth is True else truth
            if truth is None:
                edits: list[Edit] = []
                test = expressions.test(here.test, edits)
                arms.append(
                    Arm(here, test, tuple(edits), self.walk.block(here.body))
                )
            cut |= truth is False
            following = here.orelse[0] if len(here.orelse) == 1 else None
            if not isinstance(following, ast.If) or not self._is_elif(
                following
            ):
                return arms, self.walk.block(here.orelse), cut
            here = following

    def _does_without(self, node: ast.If) -> bool:
        """Whether the author wrote both: with classes of apex, and with those of torch where apex
        is missing.
        """
        uses = any(
            _replaceable(self.walk.names.canonical(n))
            for s in node.body
            for n in _named(s)
        )
        targets = {
            ast.unparse(s.targets[0])
            for s in node.body
            if isinstance(s, ast.Assign)
        }
        others = {
            ast.unparse(s.targets[0])
            for s in node.orelse
            if isinstance(s, ast.Assign)
        }
        return uses and bool(targets) and targets == others

    def _is_elif(self, node: ast.If) -> bool:
        start = self.walk.module.span(node).start
        return self.walk.module.text.encode()[start : start + 4] == b"elif"

    def _merges(self, arm: Arm, rest: list[Result]) -> bool:
        """Whether the last branch is the same code as what comes without it, thanks to
        what went.
        """
        if not is_pure(arm.test):
            return False
        mine, other = plain_of(arm.body), plain_of(rest)
        touched = arm.changed or any(r.replaced or r.edits for r in rest)
        return touched and (same(mine, other) or same(other, mine))

    def _survivor(self, one: list[Result], other: list[Result]) -> list[Result]:
        """The branch that the author wrote without apex."""
        return one if any(r.replaced or r.edits for r in other) else other

    def _is_idle(self, arm: Arm, rest: list[Result]) -> bool:
        return (
            not plain_of(arm.body)
            and bool(plain_of(rest))
            and is_pure(arm.test)
            and not arm.negated
        )

    def _in_place(
        self, node: ast.If, arms: Sequence[Arm], rest: list[Result]
    ) -> Result:
        edits = [
            edit for arm in arms for edit in (*arm.edits, *edits_of(arm.body))
        ]
        return kept(
            self.walk.module.span(node),
            _tree(arms, rest)[0],
            (*edits, *edits_of(rest)),
        )

    def _anew(
        self, node: ast.If, arms: Sequence[Arm], rest: list[Result]
    ) -> Result:
        span = self.walk.module.span(node)
        if not arms:
            return flattened(span, rest) if plain_of(rest) else gone(span)
        pieces: list[Template | str] = []
        for i, arm in enumerate(arms):
            word = "elif" if i else "if"
            condition = Template(
                "not $0" if arm.negated else "$0",
                (self.walk.module.span(arm.node.test),),
            )
            pieces += [
                f"{word} ",
                condition,
                ":\n",
                block(templates_of(arm.body)),
            ]
        if plain_of(rest):
            pieces += ["else:\n", block(templates_of(rest))]
        edits = [
            edit
            for arm in arms
            for edit in (*arm.edits, *edits_inside(arm.body))
        ]
        template = joined(pieces)
        return Result(
            span,
            tuple(_tree(arms, rest)),
            (template,),
            (*edits, *edits_inside(rest)),
            replaced=True,
        )


def _named(statement: ast.stmt) -> list[ast.expr]:
    return [
        n
        for n in nodes_in(statement)
        if isinstance(n, (ast.Name, ast.Attribute))
    ]


def _replaceable(name: str | None) -> bool:
    return name is not None and name.startswith(
        ("apex.parallel.", "apex.optimizers.", "apex.normalization.")
    )


def _tree(arms: Sequence[Arm], rest: Sequence[Result]) -> list[ast.stmt]:
    below = list(plain_of(rest))
    for arm in reversed(arms):
        test = ast.UnaryOp(ast.Not(), arm.test) if arm.negated else arm.test
        body = list(plain_of(arm.body)) or [ast.Pass()]
        below = [ast.copy_location(ast.If(test, body, below), arm.node)]
    return below
