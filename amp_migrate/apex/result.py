"""What a part of a module becomes: its tree without apex, and the edits that make its text so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import Edit, ReplaceStatement, Template

_HOLE = re.compile(r"\$(\d+)")


@dataclass(frozen=True, eq=False)
class Result:
    """One statement: `templates` stand in its place, `edits` are about what is inside of them."""

    span: Span
    plain: tuple[ast.stmt, ...]
    templates: tuple[Template, ...]
    edits: tuple[Edit, ...] = ()
    replaced: bool = False


def kept(span: Span, plain: ast.stmt, edits: Iterable[Edit] = ()) -> Result:
    """A statement that stays, with edits inside."""
    return Result(span, (plain,), (Template("$0", (span,)),), tuple(edits))


def gone(span: Span) -> Result:
    """A statement that goes."""
    return Result(span, (), (), (), replaced=True)


def flattened(span: Span, results: Sequence[Result]) -> Result:
    """A compound statement in whose place the statements of one of its blocks stand."""
    return Result(
        span,
        plain_of(results),
        templates_of(results),
        edits_inside(results),
        replaced=True,
    )


def plain_of(results: Iterable[Result]) -> tuple[ast.stmt, ...]:
    """The statements of a block."""
    return tuple(statement for result in results for statement in result.plain)


def templates_of(results: Iterable[Result]) -> tuple[Template, ...]:
    """The texts of a block."""
    return tuple(
        template for result in results for template in result.templates
    )


def edits_inside(results: Iterable[Result]) -> tuple[Edit, ...]:
    """The edits of a block that is put together anew."""
    return tuple(edit for result in results for edit in result.edits)


def edits_of(results: Iterable[Result]) -> tuple[Edit, ...]:
    """The edits of a block that stays where it is."""
    found: list[Edit] = []
    for result in results:
        found += result.edits
        if result.replaced:
            found.append(ReplaceStatement(result.span, result.templates))
    return tuple(found)


def joined(pieces: Iterable[Template | str]) -> Template:
    """Pieces in a row as one template, with the parts numbered anew."""
    text, parts = "", list[Span]()
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        first = len(parts)
        text += _renumbered(piece.text, first)
        parts += piece.parts
    return Template(text, tuple(parts))


def _renumbered(text: str, first: int) -> str:
    """The text with its holes counted from `first`."""
    return _HOLE.sub(lambda hole: f"${int(hole[1]) + first}", text)


def block(templates: Sequence[Template]) -> Template:
    """The statements of a block, indented under a header."""
    indented = (
        Template(
            "".join(f"    {line}\n" for line in t.text.splitlines()), t.parts
        )
        for t in templates
    )
    return joined(indented) if templates else Template("    pass\n")
