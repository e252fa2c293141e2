"""Where the parts of a JSON text stand, so that one string in it can be replaced and no other byte
touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amp_migrate.project.line_diff import opcodes

_CHARACTER = re.compile(
    r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u\w{4}|\\.|.", re.DOTALL
)
_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Value:
    """One value of a JSON text: what it is, and the characters from `start` to `end` that spell
    it.
    """

    value: Any
    start: int
    end: int


def value_at(text: str, at: int) -> Value:
    """The value at `at`, blanks before it skipped. Raises JSONDecodeError."""
    start = _past_blanks(text, at)
    value, end = _DECODER.raw_decode(text, start)
    return Value(value, start, end)


def members(text: str, at: int) -> Iterator[tuple[str, Value]]:
    """The members of the object at `at`, in order. Raises JSONDecodeError, also for a name that
    stands twice.
    """
    seen: set[str] = set()
    for place in _parts(text, at, "{", "}"):
        name = value_at(text, place.start)
        if not isinstance(name.value, str):
            raise json.JSONDecodeError(
                "Expecting a member's name", text, name.start
            )
        if name.value in seen:
            raise json.JSONDecodeError(
                f"The name {name.value!r} stands twice in one object",
                text,
                name.start,
            )
        seen.add(name.value)
        colon = _past_blanks(text, name.end)
        _expect(text, colon, ":")
        found = value_at(text, colon + 1)
        place.end = found.end
        yield name.value, found


def items(text: str, at: int) -> Iterator[Value]:
    """The items of the array at `at`, in order. Raises JSONDecodeError."""
    for place in _parts(text, at, "[", "]"):
        found = value_at(text, place.start)
        place.end = found.end
        yield found


@dataclass
class _Part:
    start: int
    end: int = 0
    """Set by who reads the part."""


def _parts(text: str, at: int, opening: str, closing: str) -> Iterator[_Part]:
    at = _past_blanks(text, at)
    _expect(text, at, opening)
    at = _past_blanks(text, at + 1)
    if text[at : at + 1] == closing:
        return
    while True:
        part = _Part(at)
        yield part
        at = _past_blanks(text, part.end)
        if text[at : at + 1] == closing:
            return
        _expect(text, at, ",")
        at = _past_blanks(text, at + 1)


def _past_blanks(text: str, at: int) -> int:
    """The position of what follows blanks."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, char: str) -> None:
    if text[at : at + 1] != char:
        raise json.JSONDecodeError(f"Expecting {char!r}", text, at)


def respelled(raw: str, new: str) -> str | None:
    """`new` as a JSON value in the manner of `raw`, which spells a string or a list of lines.

    Escapes, line breaks and indentation are those of `raw`; lines that stay keep their own
    spelling. None where `raw` spells one character in several ways, so that there is no manner, or
    is a list without lines.
    """
    old = value_at(raw, 0).value
    if isinstance(old, str):
        spelling = _Spelling.of([raw])
        return None if spelling is None else spelling.string(new)
    lines = [(raw[item.start : item.end], item.value) for item in items(raw, 0)]
    spelling = _Spelling.of([line for line, _ in lines])
    if spelling is None or not lines:
        return None
    opening, between, closing = _layout(raw)
    return (
        opening
        + between.join(
            _respelled_lines(lines, _split_like(lines, new), spelling)
        )
        + closing
    )


@dataclass(frozen=True)
class _Spelling:
    """How each character is written in the strings of a value."""

    seen: Mapping[str, str]

    @classmethod
    def of(cls, raws: Sequence[str]) -> _Spelling | None:
        """The spelling of these strings, quotes included; None where they do not agree."""
        seen: dict[str, str] = {}
        for written in {
            one for raw in raws for one in _CHARACTER.findall(raw[1:-1])
        }:
            char = json.loads(f'"{written}"')
            if seen.setdefault(char, written) != written:
                return None
        return cls(seen)

    def string(self, value: str) -> str:
        """`value` as a JSON string; characters that were not seen are escaped only where JSON
        wants it.
        """
        return (
            '"'
            + "".join(
                self.seen.get(char)
                or json.dumps(char, ensure_ascii=False)[1:-1]
                for char in value
            )
            + '"'
        )


def _layout(raw: str) -> tuple[str, str, str]:
    """What stands before the first item, between two items, and after the last one."""
    places = list(items(raw, 0))
    opening, closing = raw[: places[0].start], raw[places[-1].end :]
    between = (
        raw[places[0].end : places[1].start]
        if len(places) > 1
        else "," + (opening[1:] or " ")
    )
    return opening, between, closing


def _split_like(lines: list[tuple[str, str]], new: str) -> list[str]:
    """`new` in lines; Jupyter ends them where `str.splitlines` does, others at line feeds."""
    old = [value for _, value in lines]
    return (
        new.splitlines(keepends=True)
        if "".join(old).splitlines(keepends=True) == old
        else split_lines(new)
    )


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their ends, ended by line feeds alone, as Python counts them."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _respelled_lines(
    lines: list[tuple[str, str]], new: list[str], spelling: _Spelling
) -> list[str]:
    old = [value for _, value in lines]
    made: list[str] = []
    for tag, a, b, c, d in opcodes(old, new):
        made += (
            [raw for raw, _ in lines[a:b]]
            if tag == "equal"
            else [spelling.string(line) for line in new[c:d]]
        )
    return made
