"""Edits as data: what to change in one module, without saying how.

The planner and the fixes of rules produce edits; only `writer` applies them. Every place is a
`Span` of an `ast` node: byte offsets into the module's text encoded as UTF-8 (without a byte order
mark).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from amp_migrate.model.syntax.span import Span
from amp_migrate.records import NamedTuple

# Named tuples, which cost a tenth of a frozen dataclass to define: every start of `lint` defines
# these. The two kinds that have the same fields are told apart by their types.


class Template(NamedTuple):
    """Python source in which `$0`, `$1`, ... stand for the original nodes at `parts` (edited too,
    where edits fall inside).
    """

    text: str
    parts: tuple[Span, ...] = ()


class WrapStatements(NamedTuple):
    """Put the sibling statements from `first` to `last` (both included) under `with <header>:`.

    Blank lines above the first statement stay above the `with`; comments above it move inside.
    """

    first: Span
    last: Span
    header: str


class InsertBefore(NamedTuple):
    """New statements right before the statement at `anchor`, in its block.

    Inside a wrap that starts there; with `above` outside of it, and above the statement's comments.
    """

    anchor: Span
    statements: tuple[Template, ...]
    above: bool = False


class InsertAfter(NamedTuple):
    """New statements right after the statement at `anchor`, in its block (inside a wrap that ends
    there); with none, what follows it behind a semicolon gets a line of its own.
    """

    anchor: Span
    statements: tuple[Template, ...]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self))


class ReplaceStatement(NamedTuple):
    """The statement at `target` becomes `statements`; none removes it (`pass` is left where a
    block would be empty).
    """

    target: Span
    statements: tuple[Template, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self))


class ReplaceExpression(NamedTuple):
    """The expression at `target` becomes the template's expression."""

    target: Span
    replacement: Template


class AddImport(NamedTuple):
    """`import module` (`name` is None) or `from module import name`, where the file's imports are,
    unless it is there.
    """

    module: str
    name: str | None = None


class AddParameter(NamedTuple):
    """A new parameter `name` (or `name=default`) of the function definition at `function`.

    Last of the positional ones; keyword-only where a default or `*args` stands before it and it has
    no default itself.
    """

    function: Span
    name: str
    default: str | None = None


class AddDecorator(NamedTuple):
    """One more decorator, `@text`, right above the `def` of the function definition at
    `function`.
    """

    function: Span
    text: str


class AddArgument(NamedTuple):
    """A keyword argument `name=value` at the end of the call at `call` (before `**kwargs`)."""

    call: Span
    name: str
    value: str


class AddDictEntry(NamedTuple):
    """`key: value` (both source text) at the end of the dict display at `target`, laid out as its
    neighbours are.
    """

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
    | AddDecorator
    | AddArgument
    | AddDictEntry
)


def moved(edit: Edit, by: int) -> Edit:
    """The same edit of a text that begins `by` bytes later."""
    return placed(edit, lambda offset: offset + by)


def placed(edit: Edit, at: Callable[[int], int]) -> Edit:
    """The same edit of a text in which the byte `offset` stands at `at(offset)`."""
    fields: Any = [_placed(value, at) for value in edit]
    return type(edit)(*fields)


def _placed(value: object, at: Callable[[int], int]) -> object:
    if isinstance(value, Span):
        return Span(at(value.start), at(value.end))
    if isinstance(value, Template):
        return Template(
            value.text, tuple(Span(at(s.start), at(s.end)) for s in value.parts)
        )
    return (
        tuple(_placed(item, at) for item in value)
        if type(value) is tuple
        else value
    )


def place(edit: Edit) -> Span | None:
    """The whole range that an edit is about; None for an import."""
    match edit:
        case WrapStatements(first, last):
            return Span(first.start, last.end)
        case InsertBefore(anchor=span) | InsertAfter(anchor=span):
            return span
        case AddImport():
            return None
        case (
            AddParameter(function=span)
            | AddDecorator(function=span)
            | AddArgument(call=span)
        ):
            return span
        case (
            ReplaceStatement(target=span)
            | ReplaceExpression(target=span)
            | AddDictEntry(target=span)
        ):
            return span
