"""Edits become text. Nothing else in the package touches LibCST, and nothing outside the edits changes by a byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.edits import Edit, Span, WrapStatements, place
from amp_migrate.writer.conflicts import templates_of, without_repeats
from amp_migrate.writer.errors import EditConflict, SpanNotFound, UnparsableModule, WriteError
from amp_migrate.writer.locate import locate, parse
from amp_migrate.writer.transform import Rewriter

__all__ = ["EditConflict", "SpanNotFound", "UnparsableModule", "WriteError", "apply"]


def apply(text: str, edits: Sequence[Edit]) -> str:
    """Apply `edits` to a module.

    Args:
        text: the module, without byte order mark, with any line ends.
        edits: their spans are byte offsets of `ast` nodes in `text` encoded as UTF-8.

    Raises:
        EditConflict: two edits overlap or contradict each other; both are named.
        SpanNotFound: a span meets no node, or LibCST would not print the module as it was (carriage returns alone).
        UnparsableModule: LibCST cannot read the module.
        WriteError: what the edits ask for is no Python.
    """
    wanted = without_repeats(edits)
    module = parse(text)
    if not wanted:
        return text
    located = locate(module, _spans(wanted), text.encode())
    rewriter = Rewriter(located, wanted)
    try:
        output = module.visit(rewriter).code
    except (cst.CSTValidationError, cst.ParserSyntaxError) as error:
        raise WriteError(f"the edits do not make a Python module: {error}") from error
    except RecursionError as error:
        raise UnparsableModule("nested too deeply for LibCST") from error
    rewriter.check_all_done()
    return output


def _spans(edits: Sequence[Edit]) -> Iterator[Span]:
    for edit in edits:
        where = place(edit)
        if isinstance(edit, WrapStatements):
            yield from (edit.first, edit.last)
        elif where is not None:
            yield where
        for template in templates_of(edit):
            yield from template.parts
