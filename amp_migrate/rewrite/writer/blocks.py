"""Statement edits: wraps, inserts and replacements, done for one block at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import libcst as cst

from amp_migrate.rewrite.edits import Template
from amp_migrate.rewrite.writer import templates
from amp_migrate.rewrite.writer.reindent import Depth, indented
from amp_migrate.rewrite.writer.templates import (
    Part,
    newline_of,
    without_semicolon,
)

_KEPT_ON_TOP: Final = re.compile(r"#!|#.*coding[:=]")


@dataclass(frozen=True, eq=False)
class Wrap:
    """A `with` to be put around the statements from `first` to `last`."""

    header: str
    first: cst.CSTNode
    last: cst.CSTNode


@dataclass
class Orders:
    """What to do with one statement."""

    above: list[Template] = field(default_factory=list)
    before: list[Template] = field(default_factory=list)
    after: list[Template] = field(default_factory=list)
    replacement: tuple[Template, ...] | None = None
    opens: list[Wrap] = field(default_factory=list)
    closes: list[Wrap] = field(default_factory=list)
    ends_line: bool = False


@dataclass
class _Unit:
    """Lines that no wrap divides."""

    lines: list[Any]
    opens: Sequence[Wrap] = ()
    closes: Sequence[Wrap] = ()
    orphans: Sequence[cst.EmptyLine] = ()


class Block:
    """The statements of one block, rewritten."""

    def __init__(
        self,
        orders: dict[cst.CSTNode, Orders],
        part: Part,
        old_part: Part,
        depth: Depth,
    ) -> None:
        self.orders = orders
        self.part = part
        self.old_part = old_part
        self.depth = depth
        self.orphans: list[cst.EmptyLine] = []

    def lines(
        self, original: Sequence[cst.CSTNode], updated: Sequence[cst.CSTNode]
    ) -> list[Any]:
        """The new lines of a block; `updated` are the `original` ones after the edits
        inside them.
        """
        units = [
            unit
            for old, new in zip(original, updated, strict=True)
            for unit in (*self._above(old, new), *self._units(old, new))
        ]
        for unit in units:
            self._settle_orphans(unit)
        return self._nested(units)

    def _above(self, old: Any, new: Any) -> Iterator[_Unit]:
        """What stands above the statement, its comments and the wraps that start at it."""
        first = old.body[0] if isinstance(old, cst.SimpleStatementLine) else old
        orders = self.orders.get(first)
        if orders is not None and orders.above:
            yield _Unit(self._built(orders.above, newline_of(new)))

    def _settle_orphans(self, unit: _Unit) -> None:
        """Comments above a removed statement go to the next one."""
        if unit.lines and self.orphans:
            unit.lines[0] = _under(self.orphans, unit.lines[0])
            self.orphans = []
        self.orphans += unit.orphans

    def small(
        self, original: Sequence[cst.CSTNode], updated: Sequence[cst.CSTNode]
    ) -> list[Any] | None:
        """The same for statements joined by `;`; None where they no longer fit on one line."""
        pieces = [
            self._piece(old, new, None)
            for old, new in zip(original, updated, strict=True)
        ]
        if any(piece.divided for piece in pieces):
            return None
        return _joined([piece.core[0] for piece in pieces], keep_last=True)

    def _units(self, old: Any, new: Any) -> Iterator[_Unit]:
        if not isinstance(old, cst.SimpleStatementLine):
            yield self._compound(old, new)
            return
        newline = newline_of(new)
        pieces = [
            self._piece(small, edited, newline)
            for small, edited in zip(old.body, new.body, strict=True)
        ]
        if not any(piece.touched for piece in pieces):
            yield _Unit([new])
            return
        groups = _grouped(pieces)
        last_core = max(
            (
                i
                for i, group in enumerate(groups)
                if any(piece.core for piece in group)
            ),
            default=-1,
        )
        for i, group in enumerate(groups):
            yield self._line(
                group, new, i == 0, i == last_core, i == len(groups) - 1
            )

    def _line(
        self,
        group: list[_Piece],
        line: Any,
        is_first: bool,
        ends_line: bool,
        is_last: bool,
    ) -> _Unit:
        trailing = (
            line.trailing_whitespace
            if ends_line
            else cst.TrailingWhitespace(newline=cst.Newline(newline_of(line)))
        )
        middle = [small for piece in group for small in piece.core]
        if group[0].is_block:
            middle[-1:] = [
                _with_trailing(last, trailing) for last in middle[-1:]
            ]
        elif middle:
            body = _joined(middle, keep_last=is_last)
            middle = [
                line.with_changes(
                    body=body, leading_lines=(), trailing_whitespace=trailing
                )
            ]
        lines = [*group[0].before, *middle, *group[-1].after]
        orphans = line.leading_lines if is_first else ()
        return _unit(orphans, lines, group[0].opens, group[-1].closes)

    def _compound(self, old: Any, new: Any) -> _Unit:
        orders = self.orders.get(old)
        if orders is None:
            return _Unit([new])
        newline = newline_of(new)
        core = [new.with_changes(leading_lines=())]
        if orders.replacement is not None:
            core = self._built(orders.replacement, newline, self.part)
        lines = [
            *self._built(orders.before, newline),
            *core,
            *self._built(orders.after, newline),
        ]
        return _unit(new.leading_lines, lines, orders.opens, orders.closes)

    def _piece(self, old: cst.CSTNode, new: Any, newline: str | None) -> _Piece:
        orders = self.orders.get(old)
        if orders is None:
            return _Piece([new])
        core: list[Any] = [new]
        is_block = False
        if orders.replacement is not None:
            core = self._built(orders.replacement, newline, self.part)
            is_block = not _is_one_small(core)
            if not is_block:
                core = [core[0].body[0].with_changes(semicolon=new.semicolon)]
        before, after = (
            self._built(orders.before, newline),
            self._built(orders.after, newline),
        )
        return _Piece(
            core,
            before,
            after,
            orders.opens,
            orders.closes,
            is_block,
            touched=True,
            ends_line=orders.ends_line,
        )

    def _built(
        self,
        parts: Sequence[Template],
        newline: str | None,
        part: Part | None = None,
    ) -> list[Any]:
        return [
            line
            for template in parts
            for line in templates.statements(
                template, part or self.old_part, self.depth.unit, newline
            )
        ]

    def _nested(self, units: list[_Unit]) -> list[Any]:
        levels: list[list[Any]] = [[]]
        open_wraps: list[Wrap] = []
        for unit in units:
            for wrap in unit.opens:
                levels.append([])
                open_wraps.append(wrap)
            levels[-1] += unit.lines
            while open_wraps and any(
                wrap is open_wraps[-1] for wrap in unit.closes
            ):
                levels[-2].append(
                    self._with(open_wraps.pop().header, levels.pop())
                )
        return levels[0]

    def _with(self, header: str, lines: list[Any]) -> Any:
        newline = newline_of(lines[0]) if lines else None
        [statement] = templates.statements(
            Template(f"with {header}:\n    pass"),
            self.part,
            self.depth.unit,
            newline,
        )
        if not lines:
            return statement
        outside, inside = divided(lines[0].leading_lines)
        body = [
            indented(line, self.depth)
            for line in (
                lines[0].with_changes(leading_lines=inside),
                *lines[1:],
            )
        ]
        return statement.with_changes(
            leading_lines=outside, body=statement.body.with_changes(body=body)
        )


def _unit(
    above: Sequence[cst.EmptyLine],
    lines: list[Any],
    opens: Sequence[Wrap],
    closes: Sequence[Wrap],
) -> _Unit:
    if not lines:
        return _Unit([], opens, closes, above)
    return _Unit([_under(above, lines[0]), *lines[1:]], opens, closes)


@dataclass
class _Piece:
    """One small statement and what surrounds it; `is_block` where its replacement takes lines of
    its own.
    """

    core: list[Any]
    before: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)
    opens: list[Wrap] = field(default_factory=list)
    closes: list[Wrap] = field(default_factory=list)
    is_block: bool = False
    touched: bool = False
    ends_line: bool = False

    @property
    def cut_before(self) -> bool:
        return self.is_block or bool(self.before or self.opens)

    @property
    def cut_after(self) -> bool:
        ends = self.is_block or self.ends_line
        return ends or bool(self.after or self.closes)

    @property
    def divided(self) -> bool:
        return self.cut_before or self.cut_after


def divided(
    lines: Sequence[cst.EmptyLine],
) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """Lines above a statement: what stays above, and the comments that belong to the statement."""
    for i in range(len(lines), 0, -1):
        comment = lines[i - 1].comment
        outside = not lines[i - 1].indent  # indented less than the statement
        if comment is None or outside or _KEPT_ON_TOP.match(comment.value):
            return list(lines[:i]), list(lines[i:])
    return [], list(lines)


def empty_block_body(newline: str | None) -> list[Any]:
    """`pass`, for a block that has lost all its statements."""
    return [
        cst.SimpleStatementLine(
            [cst.Pass()],
            trailing_whitespace=cst.TrailingWhitespace(
                newline=cst.Newline(newline)
            ),
        )
    ]


def _grouped(pieces: list[_Piece]) -> list[list[_Piece]]:
    groups: list[list[_Piece]] = []
    for i, piece in enumerate(pieces):
        if i == 0 or piece.cut_before or pieces[i - 1].cut_after:
            groups.append([])
        groups[-1].append(piece)
    return groups


def _joined(smalls: list[Any], keep_last: bool) -> list[Any]:
    """Small statements for one line; only the last of the old line may keep a semicolon with
    nothing behind it.
    """
    *head, tail = smalls
    return [
        *(_with_semicolon(small) for small in head),
        tail if keep_last else without_semicolon(tail),
    ]


def _with_semicolon(small: Any) -> Any:
    if isinstance(small.semicolon, cst.Semicolon):
        return small
    return small.with_changes(
        semicolon=cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" "))
    )


def _is_one_small(lines: list[Any]) -> bool:
    if not lines:
        return False
    first = lines[0]
    return (
        len(lines) == 1
        and isinstance(first, cst.SimpleStatementLine)
        and len(first.body) == 1
        and not first.leading_lines
    )


def _under(comments: Sequence[cst.EmptyLine], line: Any) -> Any:
    """`line` with the old lines above it; no blank lines are doubled."""
    own = list(line.leading_lines)
    if (
        comments
        and own
        and comments[-1].comment is None
        and own[0].comment is None
    ):
        own = own[
            next(
                (i for i, empty in enumerate(own) if empty.comment), len(own)
            ) :
        ]
    return line.with_changes(leading_lines=[*comments, *own])


def _with_trailing(line: Any, trailing: cst.TrailingWhitespace) -> Any:
    """`line` with the comment of the line that it replaces."""
    if trailing.comment is None:
        return line
    if isinstance(line, cst.SimpleStatementLine):
        return line.with_changes(trailing_whitespace=trailing)
    body = getattr(line, "body", None)
    if (
        isinstance(body, cst.IndentedBlock)
        and getattr(line, "orelse", None) is None
    ):
        inner = [*body.body[:-1], _with_trailing(body.body[-1], trailing)]
        return line.with_changes(body=body.with_changes(body=inner))
    above = cst.EmptyLine(comment=trailing.comment, newline=trailing.newline)
    return line.with_changes(leading_lines=[*line.leading_lines, above])
