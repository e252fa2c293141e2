"""Edits that cannot both hold are told before anything is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import Final

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import (
    AddArgument,
    AddDecorator,
    AddDictEntry,
    AddParameter,
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceExpression,
    ReplaceStatement,
    Template,
    WrapStatements,
    place,
)
from amp_migrate.rewrite.writer.errors import EditConflict

HOLE: Final = re.compile(r"\$(\d+)")
"""Where a template takes a part."""
Replacement = ReplaceExpression | ReplaceStatement
Addition = AddParameter | AddDecorator | AddArgument | AddDictEntry


def without_repeats(edits: Sequence[Edit]) -> list[Edit]:
    """The edits, each once; inserts may be repeated on purpose.

    Raises:
        EditConflict: two edits overlap or contradict each other.
    """
    first = {edit: i for i, edit in reversed(list(enumerate(edits)))}
    unique = [
        edit
        for i, edit in enumerate(edits)
        if _may_repeat(edit) or first[edit] == i
    ]
    for one, other in combinations(unique, 2):
        if _wraps_cross(one, other) or _add_twice(one, other):
            raise EditConflict(f"{one} and {other} cannot both be applied")
    for one, other in permutations(unique, 2):
        if isinstance(
            one, ReplaceExpression | ReplaceStatement
        ) and _is_lost_in(one, other):
            raise EditConflict(f"{one} would drop {other}")
    return unique


def templates_of(edit: Edit) -> Iterator[Template]:
    """The templates of an edit."""
    match edit:
        case ReplaceExpression():
            yield edit.replacement
        case InsertBefore() | InsertAfter() | ReplaceStatement():
            yield from edit.statements
        case _:
            return


def covers(outer: Span, inner: Span) -> bool:
    """True where `inner` lies within `outer`."""
    return outer.start <= inner.start and inner.end <= outer.end


def _may_repeat(edit: Edit) -> bool:
    return isinstance(edit, InsertBefore | InsertAfter)


def _wraps_cross(one: Edit, other: Edit) -> bool:
    if not (
        isinstance(one, WrapStatements) and isinstance(other, WrapStatements)
    ):
        return False
    a, b = sorted(
        (
            Span(one.first.start, one.last.end),
            Span(other.first.start, other.last.end),
        )
    )
    return a.start < b.start < a.end < b.end


def _add_twice(one: Edit, other: Edit) -> bool:
    if not (
        isinstance(one, Addition)
        and isinstance(other, Addition)
        and type(one) is type(other)
    ):
        return False
    return place(one) == place(other) and _name(one) == _name(other)


def _name(edit: Addition) -> str:
    if isinstance(edit, AddDecorator):
        return edit.text
    return edit.key if isinstance(edit, AddDictEntry) else edit.name


def _is_lost_in(replacement: Replacement, other: Edit) -> bool:
    where = place(other)
    if where is None or not covers(replacement.target, where):
        return False
    if where == replacement.target and _stands_beside(replacement, other):
        return False
    if type(other) is type(replacement) and where == replacement.target:
        return True
    parts = [
        part
        for template in templates_of(replacement)
        for part in _used(template)
    ]
    if _about_statements(other) and where != replacement.target:
        # A part is one statement: what is put beside or around it has no place in the template.
        parts = [part for part in parts if part != where]
    return not any(covers(part, where) for part in parts)


def _used(template: Template) -> list[Span]:
    return [
        template.parts[int(index)]
        for index in HOLE.findall(template.text)
        if int(index) < len(template.parts)
    ]


def _about_statements(edit: Edit) -> bool:
    return isinstance(
        edit, WrapStatements | InsertBefore | InsertAfter | ReplaceStatement
    )


def _stands_beside(replacement: Replacement, other: Edit) -> bool:
    """A statement and its expression may share a span; so may a statement and what is put around
    it.
    """
    if isinstance(other, WrapStatements | InsertBefore | InsertAfter):
        return True
    return isinstance(replacement, ReplaceExpression) and isinstance(
        other, ReplaceStatement
    )
