"""Edits become text. Nothing else in the package touches LibCST, and nothing outside the edits
changes by a byte.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import (
    AddDecorator,
    AddImport,
    AddParameter,
    Edit,
    InsertAfter,
    InsertBefore,
    WrapStatements,
    place,
    placed,
)
from amp_migrate.rewrite.writer.conflicts import templates_of, without_repeats
from amp_migrate.rewrite.writer.errors import (
    EditConflict,
    SpanNotFound,
    UnparsableModule,
    WriteError,
)
from amp_migrate.rewrite.writer.locate import locate, parse
from amp_migrate.rewrite.writer.skeleton import Skeleton
from amp_migrate.rewrite.writer.transform import Rewriter

__all__ = [
    "EditConflict",
    "SpanNotFound",
    "UnparsableModule",
    "WriteError",
    "apply",
]


def apply(
    text: str, edits: Sequence[Edit], tree: ast.Module | None = None
) -> str:
    """Apply `edits` to a module.

    Args:
        text: the module, without byte order mark, with any line ends.
        edits: their spans are byte offsets of `ast` nodes in `text` encoded as UTF-8.
        tree: these nodes, where they are at hand.

    Raises:
        EditConflict: two edits overlap or contradict each other; both are named.
        SpanNotFound: a span meets no node.
        UnparsableModule: LibCST cannot read the statements that are touched, or would not print
            them as they were (carriage returns alone).
        WriteError: what the edits ask for is no Python.
    """
    wanted = without_repeats(edits)
    skeleton = _skeleton(text, wanted, tree)
    body, tail = _without_blank_end(skeleton.text)
    module = parse(body)
    wanted = [placed(edit, skeleton.at) for edit in wanted]
    located = locate(module, _spans(wanted), body)
    if not wanted:
        return text
    located.indents.update(skeleton.indents())
    rewriter = Rewriter(located, wanted)
    try:
        output = module.visit(rewriter).code
    except (cst.CSTValidationError, cst.ParserSyntaxError) as error:
        raise WriteError(
            f"the edits do not make a Python module: {error}"
        ) from error
    except RecursionError as error:
        raise UnparsableModule("nested too deeply for LibCST") from error
    rewriter.check_all_done()
    return skeleton.restored(output + tail)


def _without_blank_end(text: str) -> tuple[str, str]:
    """A module without the lines of blanks at its end, of which LibCST may lose one, and those."""
    end = re.compile(r"\S[ \t]*(?:\r\n|\n)(?=[ \t\f\r\n]*\Z)").search(text)
    cut = end.end() if end is not None else len(text)
    return text[:cut], text[cut:]


def _skeleton(
    text: str, edits: Sequence[Edit], tree: ast.Module | None
) -> Skeleton:
    imports = any(isinstance(one, AddImport) for one in edits)
    try:
        return Skeleton(text, _touched(edits), imports, tree)
    except (SyntaxError, ValueError) as error:
        raise UnparsableModule(f"Python cannot read this: {error}") from error
    except RecursionError as error:
        raise UnparsableModule("nested too deeply for Python") from error


def _touched(edits: Sequence[Edit]) -> Iterator[Span]:
    for edit in edits:
        span = place(edit)
        if span is not None:
            yield _head(span) if isinstance(edit, _BESIDE) else span
        for template in templates_of(edit):
            yield from template.parts


def _head(span: Span) -> Span:
    """So little that the blocks of a statement are not touched."""
    return Span(span.start, span.start + 1)


_BESIDE = (InsertBefore, InsertAfter, AddParameter, AddDecorator)
"""Edits that leave the blocks of their statement as they are."""


def _spans(edits: Sequence[Edit]) -> Iterator[Span]:
    for edit in edits:
        where = place(edit)
        if isinstance(edit, WrapStatements):
            yield from (edit.first, edit.last)
        elif where is not None:
            yield where
        for template in templates_of(edit):
            yield from template.parts
