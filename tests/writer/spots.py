"""Spans by the text they cover, and a check that every output is Python."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from textwrap import dedent

from amp_migrate.edits import Edit, Span
from amp_migrate.writer import apply


def at(text: str, snippet: str, nth: int = 0) -> Span:
    """The span of the `nth` occurrence of `snippet`, which must be there."""
    source, wanted = text.encode(), snippet.encode()
    start = -1
    for _ in range(nth + 1):
        start = source.index(wanted, start + 1)
    return Span(start, start + len(wanted))


def block(text: str) -> str:
    """A dedented literal that starts with a line break."""
    return dedent(text).removeprefix("\n")


def applied(text: str, *edits: Edit) -> str:
    """The edited text, which must parse."""
    return applied_all(text, edits)


def applied_all(text: str, edits: Sequence[Edit]) -> str:
    output = apply(text, edits)
    ast.parse(output)
    return output
