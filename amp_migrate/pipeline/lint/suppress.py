"""`# amp-migrate: ignore[rule, rule] reason`: on the line of a finding, on one of its own above,
or atop the file.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from amp_migrate.checks._finding import Finding
from amp_migrate.model.syntax.span import Span

_IGNORE = re.compile(
    r"#\s*amp-migrate:\s*ignore(?:\[(?P<rules>[^\]]*)\])?(?:(?!\s#\s).)*"
)
_QUIET_TOKENS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.ENCODING,
}


@dataclass
class Ignore:
    """One comment. `used` grows as findings are held against it."""

    line: int
    column: int
    """0-based, in characters."""
    text: str
    """The comment from its `#`, up to the next comment in the same token."""
    rules: tuple[str, ...]
    covers: range
    """Lines whose findings it suppresses."""
    own_line: bool
    used: set[str] = field(default_factory=set)


def read(text: str) -> list[Ignore]:
    """The ignore comments of a module; strings that look like one are none. Empty where it cannot
    be tokenized.
    """
    try:
        return list(_ignores(text))
    except (tokenize.TokenError, SyntaxError):
        return []


def _ignores(text: str) -> Iterator[Ignore]:
    tokens = list(
        tokenize.generate_tokens(io.StringIO(text, newline="").readline)
    )
    header = _header(tokens)
    comment_lines = {
        t.start[0]
        for t in tokens
        if t.type == tokenize.COMMENT and not t.line[: t.start[1]].strip()
    }
    last = tokens[-1].end[0]
    for token in tokens:
        found = (
            _IGNORE.search(token.string)
            if token.type == tokenize.COMMENT
            else None
        )
        if found:
            line = token.start[0]
            rules = tuple(
                name.strip()
                for name in (found["rules"] or "").split(",")
                if name.strip()
            )
            own = line in comment_lines
            covers = (
                range(1, last + 1)
                if line < header
                else _covered(line, comment_lines, own)
            )
            column = token.start[1] + found.start()
            yield Ignore(line, column, found[0].rstrip(), rules, covers, own)


def _header(tokens: Sequence[tokenize.TokenInfo]) -> int:
    """The first line that holds code; a docstring is none."""
    for token in tokens:
        docstring = (
            token.type == tokenize.STRING
            and not token.line[: token.start[1]].strip()
        )
        if token.type not in _QUIET_TOKENS and not docstring:
            return token.start[0]
    return 0


def _covered(line: int, comment_lines: set[int], own_line: bool) -> range:
    if not own_line:
        return range(line, line + 1)
    below = line + 1
    while below in comment_lines:  # several comments above one statement
        below += 1
    return range(line, below + 1)


def is_suppressed(finding: Finding, ignores: Sequence[Ignore]) -> bool:
    """Whether a comment covers `finding`; it is marked as used."""
    held = [
        one
        for one in ignores
        if finding.rule in one.rules and _meets(finding, one)
    ]
    for one in held:
        one.used.add(finding.rule)
    return bool(held)


def _meets(finding: Finding, ignore: Ignore) -> bool:
    return finding.line in ignore.covers or (
        not ignore.own_line and finding.line <= ignore.line <= finding.end_line
    )


def without(
    ignore: Ignore, rules: Sequence[str], text: str
) -> tuple[Span, str]:
    """The byte range of the comment, and what is left of it without `rules`; nothing, and no
    blank, where none is.
    """
    lines = _lines(text)
    before = "".join(lines[: ignore.line - 1])
    line = lines[ignore.line - 1]
    start, end = ignore.column, ignore.column + len(ignore.text)
    kept = [name for name in ignore.rules if name not in rules]
    new = (
        re.sub(r"\[[^\]]*\]", f"[{', '.join(kept)}]", ignore.text, count=1)
        if kept
        else ""
    )
    if not new:
        start = len(line[:start].rstrip())
        if not line[:start].strip() and not line[end:].strip():
            start, end = 0, len(line)
    offset = len(before.encode())
    return Span(
        offset + len(line[:start].encode()), offset + len(line[:end].encode())
    ), new


def _lines(text: str) -> list[str]:
    return [line.decode() for line in text.encode().splitlines(keepends=True)]
