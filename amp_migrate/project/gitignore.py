"""Which paths `.gitignore` files and `exclude` patterns leave out; the deepest file that says
something decides.

The rules are git's (`man gitignore`, `dir.c` and `wildmatch.c`). No pattern costs more than its
length times that of the path: a star never gives back what it has passed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from amp_migrate.patterns import pattern
from amp_migrate.records import NamedTuple
from amp_migrate.regular_files import read_nearby

_MOST = 5_000
"""Patterns of one file that are read; the others are passed over."""
_LONGEST = 1_000
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


class _Pattern(NamedTuple):
    """One line. A segment is None for `**`; a single one without anchor is that of the name."""

    segments: tuple[re.Pattern[str] | None, ...]
    leaves_out: bool
    folders_only: bool
    anchored: bool

    def matches(self, parts: Sequence[str], folder: bool) -> bool:
        if self.folders_only and not folder:
            return False
        if not self.anchored:
            name = self.segments[0]
            return name is None or name.fullmatch(parts[-1]) is not None
        return _matches(self.segments, parts)


class Patterns(NamedTuple):
    """Patterns in the language of `.gitignore`, relative to the folder `base`; the last that
    matches decides.
    """

    base: Path
    patterns: tuple[_Pattern, ...]
    names: Mapping[str, tuple[int, ...]]
    """The patterns that are plain names, by the name: most are, and most paths have none of them.
    """
    others: tuple[int, ...]
    """All other patterns."""

    def decide(self, path: Path, folder: bool) -> bool | None:
        """True: left out. False: taken back in (`!pattern`). None: not mentioned.

        Only `path` itself is looked at: what lies in a folder that is left out is never asked for.
        """
        try:
            parts = path.relative_to(self.base).parts
        except ValueError:
            return None
        return self._decide(parts, folder) if parts else None

    def _decide(self, parts: Sequence[str], folder: bool) -> bool | None:
        last = max(self._matching(parts, folder), default=-1)
        return None if last < 0 else self.patterns[last].leaves_out

    def _matching(self, parts: Sequence[str], folder: bool) -> Iterator[int]:
        for index in self.names.get(parts[-1], ()):
            if folder or not self.patterns[index].folders_only:
                yield index
        for index in reversed(self.others):
            if self.patterns[index].matches(parts, folder):
                yield index
                return

    def covers(self, path: Path, folder: bool) -> bool:
        """Whether `path`, or a folder above it, is left out."""
        above = [
            parent
            for parent in path.parents
            if parent.is_relative_to(self.base)
        ]
        return bool(self.decide(path, folder)) or any(
            self.decide(up, True) for up in above
        )


def patterns(base: Path, lines: Iterable[str]) -> Patterns | None:
    """Patterns from the lines of a `.gitignore`; lines that are none are passed over, as
    git does.
    """
    read = [one for line in lines if (one := _pattern(line)) is not None][
        :_MOST
    ]
    if not read:
        return None
    names: dict[str, tuple[int, ...]] = {}
    others: list[int] = []
    for index, (_, name) in enumerate(read):
        if name is None:
            others.append(index)
        else:
            names[name] = (*names.get(name, ()), index)
    return Patterns(
        base, tuple(pattern for pattern, _ in read), names, tuple(others)
    )


def _pattern(line: str) -> tuple[_Pattern, str | None] | None:
    """The pattern of a line, and the name that it is where it is nothing but a name."""
    text = _without_blanks(line.rstrip("\r\n"))
    if not text or text.startswith("#") or len(text) > _LONGEST:
        return None
    leaves_out = not text.startswith("!")
    text = text if leaves_out else text[1:]
    folders_only = text.endswith("/")
    text = text[:-1] if folders_only else text
    anchored = "/" in text
    text = text.removeprefix("/")
    try:
        parts = text.split("/")
        segments = tuple(
            None if part == "**" else re.compile(_segment(part))
            for part in parts
        )
    except ValueError:
        return None
    plain = not anchored and not re.search(r"[*?\[\\]", text)
    made = _Pattern(segments, leaves_out, folders_only, anchored)
    return (made, text if plain else None) if text else None


def _without_blanks(text: str) -> str:
    """Without the blanks at the end, but for one behind a backslash."""
    kept = text.rstrip(" ")
    slashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if slashes % 2 and len(kept) < len(text) else kept


def _segment(text: str) -> str:
    """A regular expression for one name. Raises ValueError for what git matches with nothing.

    What stands between two stars is taken where it comes first, for good (an atomic group, in the
    spelling of Python 3.10): no later part of a name could match if that one does not.
    """
    chunks: list[list[str]] = [[]]
    for part in _tokens(text):
        if part == "*":
            chunks.append([])
        else:
            chunks[-1].append(part)
    first, *rest = ["".join(chunk) for chunk in chunks]
    if not rest:
        return first
    middle = [chunk for chunk in rest[:-1] if chunk]
    held = "".join(
        f"(?=(?P<g{n}>.*?{chunk}))(?P=g{n})" for n, chunk in enumerate(middle)
    )
    return f"(?s:{first}{held}.*{rest[-1]})"


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        char = text[at]
        if char == "[":
            token, at = _bracket(text, at)
        elif char == "\\":
            if at + 1 == len(text):
                raise ValueError("a backslash at the end")
            token, at = re.escape(text[at + 1]), at + 2
        else:
            token = (
                char
                if char == "*"
                else "[^/]"
                if char == "?"
                else re.escape(char)
            )
            at += 1
        yield token


def _bracket(text: str, at: int) -> tuple[str, int]:
    """The set that begins at `at`, and where it ends. Raises ValueError where it does not."""
    start = at
    at += 1
    negated = text[at : at + 1] in ("!", "^") and text[at : at + 1] != ""
    at += negated
    inside: list[str] = []
    while at < len(text) and (text[at] != "]" or not inside):
        named = re.compile(r"\[:(\w+):\]").match(text, at)
        if named:
            inside.append(
                _CLASSES[named[1]] if named[1] in _CLASSES else _wrong(named[0])
            )
            at = named.end()
            continue
        low, at = _member(text, at)
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(text, at + 1)
            inside.append(
                f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
            )
        else:
            inside.append(re.escape(low))
    if at >= len(text):
        _wrong(text[start:])
    members = "".join(inside)
    if not members:
        return ("[^/]" if negated else "(?!)"), at + 1
    return (f"[^/{members}]" if negated else f"(?!/)[{members}]"), at + 1


def _member(text: str, at: int) -> tuple[str, int]:
    at += text[at] == "\\"
    return (text[at], at + 1) if at < len(text) else _wrong(text)


def _wrong(text: str) -> NoReturn:
    raise ValueError(f"{text!r} is no set of characters")


def _matches(
    segments: Sequence[re.Pattern[str] | None], parts: Sequence[str]
) -> bool:
    """Whether a path matches; `**` stands for any number of folders, at the end for at least one
    name. As with stars in a name, only the last `**` ever takes more.
    """
    at, here, resume, taken = 0, 0, -1, 0
    while here < len(parts):
        segment = segments[at] if at < len(segments) else _NOTHING
        if segment is None:
            if at == len(segments) - 1:
                return True
            resume, taken, at = at, here, at + 1
        elif segment.fullmatch(parts[here]):
            at, here = at + 1, here + 1
        elif resume >= 0:
            taken += 1
            at, here = resume + 1, taken
        else:
            return False
    return at == len(segments)


_NOTHING = pattern(r"(?!)")


@functools.cache
def one_pattern(base: Path, line: str) -> Patterns | None:
    """The pattern of a settings file, read once."""
    return patterns(base, [line])


def read(base: Path, file: Path) -> Patterns | None:
    """The patterns of one `.gitignore` file, relative to `base`; None where there are none, and
    where it is no file or too large to be one.
    """
    data = read_nearby(file)
    if not data:
        return None
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return patterns(base, text.split("\n"))


def above(folder: Path) -> tuple[Patterns, ...]:
    """The patterns that a repository's upper folders set for `folder`, outermost first; none
    outside a repository.
    """
    root = next(
        (
            parent
            for parent in (folder, *folder.parents)
            if (parent / ".git").exists()
        ),
        None,
    )
    if root is None or root == folder:
        return present([_exclude_of(root)] if root else [])
    between = [
        parent
        for parent in reversed(folder.parents)
        if parent.is_relative_to(root)
    ]
    found = present(
        [_exclude_of(root), *(_gitignore_of(parent) for parent in between)]
    )
    # A folder that is named on the command line is wanted, even if git ignores it.
    return (
        ()
        if any(left_out(one, True, found) for one in (folder, *between))
        else found
    )


def _exclude_of(root: Path) -> Patterns | None:
    return read(root, root / ".git" / "info" / "exclude")


def _gitignore_of(folder: Path) -> Patterns | None:
    return read(folder, folder / ".gitignore")


def present(found: Iterable[Patterns | None]) -> tuple[Patterns, ...]:
    """Those that are not None."""
    return tuple(one for one in found if one is not None)


def left_out(path: Path, folder: bool, rules: Sequence[Patterns]) -> bool:
    """Tell whether `rules`, outermost first, leave `path` out."""
    for one in reversed(rules):
        decision = one.decide(path, folder)
        if decision is not None:
            return decision
    return False
