"""Edits as data: what to change in one module, without saying how.

The planner and the fixes of rules produce edits; only `writer` applies them. Every place is a `Span` of an `ast` node: byte
offsets into the module's text encoded as UTF-8 (without a byte order mark).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias


@dataclass(frozen=True, order=True)
class Span:
    """Half-open byte range of one syntax node in the UTF-8 source."""

    start: int
    end: int


@dataclass(frozen=True)
class Template:
    """Python source in which `$0`, `$1`, ... stand for the original nodes at `parts` (edited too, where edits fall inside)."""

    text: str
    parts: tuple[Span, ...] = ()


@dataclass(frozen=True)
class WrapStatements:
    """Put the sibling statements from `first` to `last` (both included) under `with <header>:`.

    Blank lines above the first statement stay above the `with`; comments above it move inside.
    """

    first: Span
    last: Span
    header: str


@dataclass(frozen=True)
class InsertBefore:
    """New statements right before the statement at `anchor`, in its block.

    Inside a wrap that starts there; with `above` outside of it, and above the statement's comments.
    """

    anchor: Span
    statements: tuple[Template, ...]
    above: bool = False


@dataclass(frozen=True)
class InsertAfter:
    """New statements right after the statement at `anchor`, in its block (inside a wrap that ends there)."""

    anchor: Span
    statements: tuple[Template, ...]


@dataclass(frozen=True)
class ReplaceStatement:
    """The statement at `target` becomes `statements`; none removes it (`pass` is left where a block would be empty)."""

    target: Span
    statements: tuple[Template, ...] = ()


@dataclass(frozen=True)
class ReplaceExpression:
    """The expression at `target` becomes the template's expression."""

    target: Span
    replacement: Template


@dataclass(frozen=True)
class AddImport:
    """`import module` (`name` is None) or `from module import name`, where the file's imports are, unless it is there."""

    module: str
    name: str | None = None


@dataclass(frozen=True)
class AddParameter:
    """A new parameter `name` (or `name=default`) of the function definition at `function`.

    Last of the positional ones; keyword-only where a default or `*args` stands before it and it has no default itself.
    """

    function: Span
    name: str
    default: str | None = None


@dataclass(frozen=True)
class AddArgument:
    """A keyword argument `name=value` at the end of the call at `call` (before `**kwargs`)."""

    call: Span
    name: str
    value: str


@dataclass(frozen=True)
class AddDictEntry:
    """`key: value` (both source text) at the end of the dict display at `target`, laid out as its neighbours are."""

    target: Span
    key: str
    value: str


Edit: TypeAlias = (
    WrapStatements
    | InsertBefore
    | InsertAfter
    | ReplaceStatement
    | ReplaceExpression
    | AddImport
    | AddParameter
    | AddArgument
    | AddDictEntry
)


def moved(edit: Edit, by: int) -> Edit:
    """The same edit of a text that begins `by` bytes later."""
    spans: dict[str, Any] = {f.name: _moved(getattr(edit, f.name), by) for f in fields(edit)}
    return replace(edit, **spans)


def _moved(value: object, by: int) -> object:
    if isinstance(value, Span):
        return Span(value.start + by, value.end + by)
    if isinstance(value, Template):
        return Template(value.text, tuple(Span(s.start + by, s.end + by) for s in value.parts))
    return tuple(_moved(item, by) for item in value) if isinstance(value, tuple) else value


def place(edit: Edit) -> Span | None:
    """The whole range that an edit is about; None for an import."""
    match edit:
        case WrapStatements(first, last):
            return Span(first.start, last.end)
        case InsertBefore(anchor=span) | InsertAfter(anchor=span):
            return span
        case AddImport():
            return None
        case AddParameter(function=span) | AddArgument(call=span):
            return span
        case ReplaceStatement(target=span) | ReplaceExpression(target=span) | AddDictEntry(target=span):
            return span
