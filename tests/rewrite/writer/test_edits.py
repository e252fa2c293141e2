"""Edits as values."""

from __future__ import annotations

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import (
    AddImport,
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceStatement,
    Template,
    WrapStatements,
    moved,
)

SPAN = Span(3, 7)
LINES = (Template("x = $0", (Span(4, 5),)),)


def test_kinds_with_the_same_fields_are_two_edits() -> None:
    after, instead = InsertAfter(SPAN, LINES), ReplaceStatement(SPAN, LINES)
    assert after != instead
    assert not after == instead  # noqa: SIM201 - both operators are ours
    assert len({after, instead, InsertAfter(SPAN, LINES)}) == 2


def test_an_edit_of_a_text_that_begins_later() -> None:
    assert moved(WrapStatements(SPAN, Span(8, 9), "a"), -2) == WrapStatements(
        Span(1, 5), Span(6, 7), "a"
    )
    assert moved(InsertBefore(SPAN, LINES, above=True), 10) == InsertBefore(
        Span(13, 17), (Template("x = $0", (Span(14, 15),)),), above=True
    )
    edit: Edit = AddImport("torch")
    assert moved(edit, 5) == edit
