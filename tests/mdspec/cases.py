"""Code blocks of Markdown pages and specs, as test cases.

A block starts with three backticks and `python`, followed by words that say what it is:

- nothing: source that is linted. A line ending in the comment `# error` must be reported there by
  the page's rule, one
  ending in `# ok` is a near miss; no line without `# error` may be reported.
- `fixed`: what the fixer makes of the block above. `fixed unsafe`: what it makes with unsafe fixes.
- `refused`, `skipped`: a program that the migrator refuses or skips, for the reason that is the
  page's name.
- `broken`: source that does not parse.
- `key=value`: a setting (`target-torch`, `dtype`, `device`, `leave`).

Markers are stripped before anything else sees the source, so a `fixed` block holds none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amp_migrate.config import Settings

if TYPE_CHECKING:
    from pathlib import Path

KINDS = frozenset({"lint", "fixed", "refused", "skipped", "broken"})
OPTIONS = frozenset({"target-torch", "dtype", "device", "leave"})
_MARKER = re.compile(r"[ \t]*# (error|ok)[ \t]*$")
_FENCE = re.compile(r"(?ms)^```python([^\n]*)\n(.*?)^```[ \t]*$")
_HEADING = re.compile(r"(?m)^#+ (.+)$")


@dataclass(frozen=True)
class Block:
    """One code block of a page."""

    file: str
    title: str
    """The heading above."""
    line: int
    """Line of the page on which the block's first line stands, 1-based."""
    kind: str
    unsafe: bool
    options: tuple[tuple[str, str], ...]
    source: str
    """Without markers."""
    errors: tuple[int, ...]
    """1-based lines of `source` that must be reported."""
    oks: tuple[int, ...]
    """1-based lines of `source` that are near misses."""

    @property
    def id(self) -> str:
        """File, line and heading, for the name of a test."""
        return f"{self.file}:{self.line}:{self.title}"


def blocks(path: Path) -> list[Block]:
    """The Python blocks of the Markdown file at `path`, in order. Raises ValueError for a word it
    does not know.
    """
    text = path.read_text(encoding="utf-8")
    return [_block(path.stem, text, match) for match in _FENCE.finditer(text)]


def _block(file: str, text: str, match: re.Match[str]) -> Block:
    line = text.count("\n", 0, match.start()) + 2
    words = match[1].split()
    kind, unsafe, options = _words(words, f"{file}:{line - 1}")
    lines = match[2].splitlines()
    marks = {
        number: mark[1] for number, text in enumerate(lines, 1) if (mark := _MARKER.search(text))
    }
    return Block(
        file=file,
        title=[heading[1] for heading in _HEADING.finditer(text, 0, match.start())][-1],
        line=line,
        kind=kind,
        unsafe=unsafe,
        options=options,
        source="".join(_MARKER.sub("", text) + "\n" for text in lines),
        errors=tuple(number for number, mark in marks.items() if mark == "error"),
        oks=tuple(number for number, mark in marks.items() if mark == "ok"),
    )


def _words(words: list[str], where: str) -> tuple[str, bool, tuple[tuple[str, str], ...]]:
    kinds = [word for word in words if word in KINDS - {"lint"}]
    options = tuple(
        (key, value) for key, equals, value in (word.partition("=") for word in words) if equals
    )
    known = {*kinds, "unsafe", *(f"{key}={value}" for key, value in options if key in OPTIONS)}
    if len(kinds) > 1 or not known.issuperset(words):
        raise ValueError(f"{where}: cannot read {' '.join(words)!r}")
    return (kinds or ["lint"])[0], "unsafe" in words, options


NEEDS_THE_OTHERS = frozenset({"unused-ignore"})
"""Rules that judge what other rules do, and are tried together with the default ones."""


def settings(block: Block, rule: str | None) -> Settings:
    """The settings under which `block` is tried: `rule` alone, or the default rules where it is
    None.
    """
    options = dict(block.options)
    target = options.get("target-torch")
    major, minor = (int(part) for part in (target or "0.0").split("."))
    return Settings(
        dtype=options.get("dtype", "float16"),
        device=options.get("device"),
        leave=tuple(filter(None, options.get("leave", "").split(","))),
        target_torch=(major, minor) if target else None,
        select=(rule,) if rule and rule not in NEEDS_THE_OTHERS else (),
    )


@dataclass(frozen=True)
class FixCase:
    """A block and what the fixer must make of it."""

    before: Block
    after: Block


def fix_cases(found: list[Block]) -> list[FixCase]:
    """Each `fixed` block with the linted block above it. Raises ValueError where there is none."""
    cases: list[FixCase] = []
    above: Block | None = None
    for block in found:
        if block.kind == "lint":
            above = block
        elif block.kind == "fixed":
            if above is None:
                raise ValueError(f"{block.id}: nothing to fix above")
            cases.append(FixCase(above, block))
    return cases
