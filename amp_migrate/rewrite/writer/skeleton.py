"""The part of a module that its edits touch, for LibCST to read: the statements that stay as they
are, at the top level and in the blocks around the edits, become single names, and come back when
the edits are done.

So a file of 20,000 lines, or a table of 10,000 entries, costs little more than the loop beside it,
and what LibCST cannot read costs nothing where it is not touched.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from amp_migrate.model.syntax.module import blocks
from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.writer.errors import WriteError

_SHORT = 40
"""Bytes that are not worth a name of their own."""
_FORM_FEED = re.compile(rb"[ \t\f]*\f(?=[ \t]*\S)")
_NEVER = (
    tokenize.NL,
    tokenize.COMMENT,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.NEWLINE,
)


@dataclass(frozen=True)
class _Cut:
    """Bytes of the module that are something else in the skeleton."""

    start: int
    end: int
    new: bytes
    mark: str
    """What is unique in `new`."""


@dataclass(frozen=True)
class _Block:
    """Statements beside each other."""

    statements: Sequence[ast.stmt]
    indent: bytes
    end: int
    """Where what follows the block begins."""


class Skeleton:
    """`text` holds what is to be parsed; `restored` takes the edited text back to the whole."""

    def __init__(
        self,
        text: str,
        touched: Iterable[Span],
        imports: bool,
        tree: ast.Module | None = None,
    ) -> None:
        """Leave out of `text` what lies outside of the `touched` spans.

        Args:
            text: a module that `ast` reads.
            touched: byte ranges of `ast` nodes.
            imports: keep the imports at the top level, and the first statement, too.
            tree: what `ast` reads in it, where that is known.

        Raises:
            SyntaxError, ValueError, RecursionError: `ast` does not read it.
        """
        self._source = text.encode()
        self._tree = tree or ast.parse(text)
        self._starts = _line_starts(self._source)
        self._name = _free_name(text)
        self._cuts = sorted(
            [*self._holes(_merged(touched), imports), *self._form_feeds()],
            key=lambda cut: cut.start,
        )
        self._cuts = list(_apart(self._cuts))
        self._shifts = _shifts(self._cuts)
        self.text = "".join(self._pieces())

    @property
    def newline(self) -> str:
        """The first line end of the module."""
        found = re.search(rb"\r\n|\r|\n", self._source)
        return found[0].decode() if found else "\n"

    def indents(self) -> Iterator[str]:
        """By how much each block is indented, in source order."""
        return self._indents(self._tree, b"")

    def at(self, offset: int) -> int:
        """Where a byte of the module is in the skeleton; it lies outside of what was left out."""
        index = bisect_right(self._shifts, (offset, 1 << 62)) - 1
        return offset + (self._shifts[index][1] if index >= 0 else 0)

    def restored(self, output: str) -> str:
        """The edited skeleton with everything in its place again.

        Raises WriteError where something of it was lost.
        """
        for cut in reversed(self._cuts):
            old = self._source[cut.start : cut.end].decode()
            if output.count(cut.mark) != 1:
                raise WriteError("a statement beside the edits was lost")
            if cut.mark.startswith("#"):
                line = re.compile(rf"[ \t]*{re.escape(cut.mark)}\r?\n")
                output = line.sub(lambda _, old=old: old, output, count=1)  # type: ignore[misc]
            else:
                output = output.replace(cut.mark, old)
        return output

    # -- what is left out

    def _holes(self, touched: Sequence[Span], imports: bool) -> Iterator[_Cut]:
        whole = _Block(self._tree.body, b"", len(self._source))
        kept = {
            statement
            for index, statement in enumerate(self._tree.body)
            if imports and (index == 0 or _holds_import(statement))
        }
        yield from self._in_block(whole, touched, kept)

    def _in_block(
        self, block: _Block, touched: Sequence[Span], kept: Collection[ast.stmt]
    ) -> Iterator[_Cut]:
        """What is left out of a block, and of the blocks in the statements that are touched."""
        run: list[ast.stmt] = []
        starts = [self._span(one).start for one in block.statements[1:]]
        for statement, after in zip(
            block.statements, [*starts, block.end], strict=False
        ):
            span = self._span(statement)
            if not (
                statement in kept
                or _meets(span, touched)
                or self._source.startswith(b"elif", span.start)
            ):
                run.append(statement)
                continue
            yield from self._hole(run, block.indent, span.start)
            run = []
            for inner in (
                () if statement in kept else self._blocks(statement, after)
            ):
                yield from self._in_block(inner, touched, ())
        end = block.end
        if block.indent and run and self._has_comments(run[-1], block):
            end = self._span(run.pop()).start
        yield from self._hole(run, block.indent, end)

    def _has_comments(self, last: ast.stmt, block: _Block) -> bool:
        """Whether comments behind the last statement of a block belong to a block in it."""
        end = self._span(last).end
        return self._end(last, block.indent, block.end) != end

    def _blocks(self, statement: ast.stmt, end: int) -> Iterator[_Block]:
        """The blocks of a statement that are on lines of their own, the last one first."""
        found = [block for block in blocks(statement) if block]
        for block in sorted(found, key=lambda one: -one[0].lineno):
            start = self._span(block[0]).start
            indent = self._source[self._line_start(start) : start]
            is_elif = self._source.startswith(b"elif", start)
            if not indent.strip(b" \t") and (indent or is_elif):
                yield _Block(block, indent, end)
            end = start

    def _hole(
        self, run: Sequence[ast.stmt], indent: bytes, until: int
    ) -> Iterator[_Cut]:
        if not run:
            return
        start, end = self._span(run[0]).start, self._end(run[-1], indent, until)
        head = self._source[self._line_start(start) : start]
        if not head.strip() and not indent:
            start -= len(head)  # a form feed may stand there
        if end - start > _SHORT or b"\f" in head:
            mark = f"{self._name}{run[0].lineno}_{run[0].col_offset}_"
            yield _Cut(start, end, mark.encode(), mark)

    def _end(self, last: ast.stmt, indent: bytes, until: int) -> int:
        """The end of a statement in a block, with the comments behind it that are indented as the
        statement's own block is.
        """
        end = self._span(last).end
        comment = re.compile(rb"(?m)^%b[ \t\f]+#[^\r\n]*" % re.escape(indent))
        nested = list(comment.finditer(self._source, end, until))
        return nested[-1].end() if nested and self._ends_line(end) else end

    def _ends_line(self, at: int) -> bool:
        return (
            re.compile(rb"[ \t\f]*(#[^\r\n]*)?(\r|\n|\Z)").match(
                self._source, at
            )
            is not None
        )

    def _form_feeds(self) -> Iterator[_Cut]:
        """Form feeds in front of statements, which LibCST does not keep: each becomes a comment."""
        if b"\f" not in self._source:
            return
        for row in _first_rows(self._source.decode()):
            start = self._starts[row - 1]
            found = _FORM_FEED.match(self._source, start)
            if found is not None:
                indent = re.compile(rb"[ \t]*").match(self._source, found.end())
                mark = f"# {self._name}{row}_"
                line = (
                    (indent[0] if indent else b"")
                    + mark.encode()
                    + self.newline.encode()
                )
                yield _Cut(start, found.end(), line, mark)

    # -- places

    def _span(self, node: ast.stmt) -> Span:
        first = min(
            [node, *getattr(node, "decorator_list", ())],
            key=lambda one: one.lineno,
        )
        start = self._starts[first.lineno - 1] + first.col_offset
        if first is not node:
            start = self._source.rindex(b"@", 0, start)
        return Span(
            start,
            self._starts[(node.end_lineno or 0) - 1]
            + (node.end_col_offset or 0),
        )

    def _line_start(self, at: int) -> int:
        return self._starts[bisect_right(self._starts, at) - 1]

    def _indents(self, node: ast.AST, outer: bytes) -> Iterator[str]:
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block:
                continue
            inner = outer
            if name not in ("handlers", "cases") and isinstance(
                block[0], ast.stmt
            ):
                start = self._span(block[0]).start
                head = self._source[self._line_start(start) : start].rpartition(
                    b"\f"
                )[2]
                if (
                    not head.strip()
                    and head.startswith(outer)
                    and head != outer
                ):
                    yield head[len(outer) :].decode()
                    inner = head
            for child in block:
                yield from self._indents(child, inner)

    def _pieces(self) -> Iterator[str]:
        at = 0
        for cut in self._cuts:
            yield self._source[at : cut.start].decode()
            yield cut.new.decode()
            at = cut.end
        yield self._source[at:].decode()


def _apart(cuts: Iterable[_Cut]) -> Iterator[_Cut]:
    """Without those that lie in another one."""
    end = -1
    for cut in cuts:
        if cut.start >= end:
            end = cut.end
            yield cut


def _shifts(cuts: Iterable[_Cut]) -> list[tuple[int, int]]:
    """From which byte on places lie how much later."""
    found: list[tuple[int, int]] = []
    total = 0
    for cut in cuts:
        total += len(cut.new) - (cut.end - cut.start)
        found.append((cut.end, total))
    return found


def _meets(span: Span, touched: Sequence[Span]) -> bool:
    index = bisect_right(touched, span.end - 1, key=lambda one: one.start) - 1
    return index >= 0 and span.start < touched[index].end


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The bytes that the spans cover, as spans that do not meet, in order."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _holds_import(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Try, ast.With)):
        return any(map(_holds_import, statement.body))
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def _line_starts(source: bytes) -> list[int]:
    return [0, *(found.end() for found in re.finditer(rb"\r\n|\r|\n", source))]


def _free_name(text: str) -> str:
    """A name that begins nothing in the text."""
    name = "_left_out_"
    while name in text:
        name += "_"
    return name


def _first_rows(text: str) -> Iterator[int]:
    """The lines in which a logical line begins; those in brackets and strings are none."""
    first = True
    try:
        for token in tokenize.generate_tokens(
            io.StringIO(text, newline="").readline
        ):
            if token.type == tokenize.NEWLINE:
                first = True
            elif first and token.type not in _NEVER:
                first = False
                yield token.start[0]
    except (tokenize.TokenError, SyntaxError):
        return
