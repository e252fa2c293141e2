"""New members of parameter lists, argument lists and dict displays, laid out as their neighbours
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

_TAIL_FIELDS: dict[type[Any], str] = {
    cst.Arg: "whitespace_after_arg",
    cst.Param: "whitespace_after_param",
    cst.ParamSlash: "whitespace_after",
}


@dataclass(frozen=True)
class Frame:
    """What surrounds the members: the whitespace behind the opening bracket and, where the bracket
    owns it, before the closing one; and one level of indentation, for a list that has no line of
    its own to go by.
    """

    opening: Any
    closing: Any
    unit: str


def insert(
    members: Sequence[Any], index: int, new: Sequence[Any], frame: Frame
) -> tuple[list[Any], Any]:
    """Put `new` before the member at `index`; gives all members and the whitespace before the
    closing bracket.
    """
    if not members:
        return _chained(new, cst.SimpleWhitespace(" ")), frame.closing
    if index < len(members):
        return _insert_inside(members, index, new, frame.opening), frame.closing
    *head, last = members
    bare, has_comma, tail = _without_tail(last, frame.closing)
    between = _separator(members, frame, tail)
    added = _chained(new, _clean(between))
    added[-1], closing = _with_tail(
        added[-1], has_comma, _clean(tail), frame.closing
    )
    return [
        *head,
        bare.with_changes(comma=_comma(last, _joined(tail, between))),
        *added,
    ], closing


def _insert_inside(
    members: Sequence[Any], index: int, new: Sequence[Any], opening: Any
) -> list[Any]:
    gap = _gaps(members, opening)[index]
    after = (
        cst.SimpleWhitespace(" ")
        if index == 0 and _is_simple(gap)
        else _clean(gap)
    )
    added = _chained(new, after)
    added[-1] = added[-1].with_changes(comma=cst.Comma(whitespace_after=after))
    return [*members[:index], *added, *members[index:]]


def _chained(new: Sequence[Any], between: Any) -> list[Any]:
    return [
        *(
            member.with_changes(comma=cst.Comma(whitespace_after=between))
            for member in new[:-1]
        ),
        new[-1],
    ]


def _without_tail(last: Any, closing: Any) -> tuple[Any, bool, Any]:
    """The last member without what stands before the bracket; whether a comma is there; the
    whitespace there.
    """
    field = _TAIL_FIELDS.get(type(last))
    empty = cst.SimpleWhitespace("")
    if isinstance(last.comma, cst.Comma):
        own = last.comma.whitespace_after
        return (
            last,
            True,
            closing if closing is not None and _is_empty(own) else own,
        )
    if field is None:
        return last, False, closing
    return last.with_changes(**{field: empty}), False, getattr(last, field)


def _with_tail(
    last: Any, has_comma: bool, tail: Any, closing: Any
) -> tuple[Any, Any]:
    field = _TAIL_FIELDS.get(type(last))
    if closing is not None:
        comma = cst.Comma() if has_comma else cst.MaybeSentinel.DEFAULT
        return last.with_changes(comma=comma), tail
    if has_comma:
        return last.with_changes(comma=cst.Comma(whitespace_after=tail)), None
    assert field is not None
    return last.with_changes(
        comma=cst.MaybeSentinel.DEFAULT, **{field: tail}
    ), None


def _comma(member: Any, after: Any) -> cst.Comma:
    if isinstance(member.comma, cst.Comma):
        return member.comma.with_changes(whitespace_after=after)
    return cst.Comma(whitespace_after=after)


def _gaps(members: Sequence[Any], opening: Any) -> list[Any]:
    """The whitespace before each member."""
    return [
        opening,
        *(member.comma.whitespace_after for member in members[:-1]),
    ]


def _separator(members: Sequence[Any], frame: Frame, tail: Any) -> Any:
    """The whitespace that a new last member gets before it."""
    gaps = _gaps(members, frame.opening)
    inner = gaps[1:] or [gap for gap in gaps if not _is_simple(gap)]
    if inner and not any(_is_simple(gap) for gap in inner):
        return _clean(inner[-1])
    if _is_simple(tail) or not (tail.first_line.comment or tail.empty_lines):
        simple = [gap for gap in gaps[1:] if _is_simple(gap)]
        return simple[-1] if simple else cst.SimpleWhitespace(" ")
    # A comment ends the line of the last member: the new one needs a line of its own.
    broken = [gap for gap in gaps if not _is_simple(gap)]
    if broken:
        return _clean(broken[-1])
    return _clean(tail).with_changes(
        last_line=cst.SimpleWhitespace(tail.last_line.value + frame.unit)
    )


def _joined(tail: Any, between: Any) -> Any:
    """`between`, with the comments that stood behind the last member."""
    if _is_simple(tail) or _is_simple(between):
        return between
    return between.with_changes(
        first_line=tail.first_line, empty_lines=tail.empty_lines
    )


def _clean(whitespace: Any) -> Any:
    """The same line break without comments and empty lines."""
    if _is_simple(whitespace):
        return whitespace
    line = cst.TrailingWhitespace(newline=whitespace.first_line.newline)
    return whitespace.with_changes(first_line=line, empty_lines=())


def _is_simple(whitespace: Any) -> bool:
    return isinstance(whitespace, cst.SimpleWhitespace)


def _is_empty(whitespace: Any) -> bool:
    return _is_simple(whitespace) and not whitespace.value
