"""Which lines of the rewritten files a run has entered: what was not entered, was not verified.

A call is put before each stretch of statements that run one after the other: at the start of every
block, and behind every compound statement.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from amp_migrate.model.syntax.queries import nodes_in

_NAME = "__amp_migrate_entered__"
_COMPOUND = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.If,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.Match,
)
_BLOCKS = ("body", "orelse", "finalbody")


@dataclass(frozen=True)
class Stretch:
    """Statements of `path` that run together; `changed` where the rewrite touched one of them."""

    path: str
    statements: tuple[ast.stmt, ...]
    changed: bool

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line, as the user's file counts them."""
        first = min(one.lineno for one in self.statements)
        return first, max(
            one.end_lineno or one.lineno for one in self.statements
        )


class Marks:
    """Puts the calls in and keeps what they tell."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self._seen: set[int] = set()
        setattr(builtins, _NAME, self._seen.add)

    def insert(
        self, tree: ast.Module, path: str, same: tuple[bool, ...]
    ) -> None:
        """Mark every stretch of `tree`, in place; `same` tells, by line, what is not changed."""
        for owner in list(nodes_in(tree)):
            for field in _BLOCKS:
                block = getattr(owner, field, None)
                if (
                    isinstance(block, list)
                    and block
                    and isinstance(block[0], ast.stmt)
                ):
                    setattr(owner, field, list(self._marked(block, path, same)))

    def _marked(
        self, block: list[ast.stmt], path: str, same: tuple[bool, ...]
    ) -> Iterator[ast.stmt]:
        head, rest = _head(block)
        yield from head
        stretch: list[ast.stmt] = []
        for statement in rest:
            stretch.append(statement)
            if isinstance(statement, _COMPOUND):
                yield from self._stretch(stretch, path, same)
                stretch = []
        if stretch:
            yield from self._stretch(stretch, path, same)

    def _stretch(
        self, statements: list[ast.stmt], path: str, same: tuple[bool, ...]
    ) -> Iterator[ast.stmt]:
        changed = any(
            not same[line] for one in statements for line in _own_lines(one)
        )
        call = ast.Call(
            ast.Name(_NAME, ast.Load()), [ast.Constant(len(self.stretches))], []
        )
        mark = ast.copy_location(ast.Expr(call), statements[0])
        self.stretches.append(Stretch(path, tuple(statements), changed))
        yield ast.fix_missing_locations(mark)
        yield from statements

    def missed(self) -> list[tuple[str, int, int, bool]]:
        """Path, first and last line of what was not entered, the outermost alone; and whether the
        rewrite changed it.
        """
        changed: dict[tuple[str, int, int], bool] = {}
        for place, stretch in enumerate(self.stretches):
            if place not in self._seen:
                key = (stretch.path, *stretch.lines)
                changed[key] = changed.get(key, False) or stretch.changed
        return [
            (*key, any(changed[one] for one in changed if _holds(key, one)))
            for key in changed
            if not any(_holds(other, key) for other in changed if other != key)
        ]


def _head(block: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """What must stay first in a block: its docstring, and imports from the future."""
    count = 0
    for statement in block:
        text = isinstance(statement, ast.Expr) and isinstance(
            statement.value, ast.Constant
        )
        future = (
            isinstance(statement, ast.ImportFrom)
            and statement.module == "__future__"
        )
        if not (text or future):
            break
        count += 1
    return block[:count], block[count:]


def _own_lines(statement: ast.stmt) -> range:
    """Of a compound statement its head alone: its blocks are stretches of their own."""
    inner = [
        x[0].lineno for x in (getattr(statement, f, None) for f in _BLOCKS) if x
    ]
    end = min(inner) - 1 if inner else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(end, statement.lineno) + 1)


def _holds(one: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    return one[0] == other[0] and one[1] <= other[1] and other[2] <= one[2]
