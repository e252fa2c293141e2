"""`--add-ignore`: a comment beside each finding, so that a project can start with a clean run."""

from __future__ import annotations

import io
import os
import re
import tokenize
from collections.abc import Sequence
from pathlib import Path

from amp_migrate import regular_files
from amp_migrate.checks._finding import Finding
from amp_migrate.pipeline.atomic_write import replace as replace_file
from amp_migrate.project.errors import reading
from amp_migrate.project.notebook_cells import Places
from amp_migrate.project.text import decode

_NEVER = ("syntax", "unused-ignore")
_BRACKETS = re.compile(r"(#\s*amp-migrate:\s*ignore\[)([^\]]*)\]")


def ignore_in(path: Path, findings: Sequence[Finding]) -> int:
    """Add comments to the file at `path`; how many findings they are for. Raises SourceError."""
    try:
        data = regular_files.read(path)
    except OSError as error:
        raise reading(error) from None
    source = decode(data, os.fspath(path))
    try:
        text = with_ignores(source.text, _in_text(findings, source.text))
    except (tokenize.TokenError, SyntaxError):
        return 0
    if text == source.text:
        return 0
    replace_file(path, source.encode(text), data)
    return sum(finding.rule not in _NEVER for finding in findings)


def _in_text(findings: Sequence[Finding], text: str) -> list[Finding]:
    """The findings by line of the text, those of a notebook too."""
    places = Places.of(text)
    return [
        one
        if one.cell is None
        else one._replace(line=places.line(one.cell, one.line))
        for one in findings
    ]


def with_ignores(text: str, findings: Sequence[Finding]) -> str:
    """`text` with an ignore comment for each finding, at the end of its line or above its
    statement.

    A finding that no comment reaches (inside a string of several lines) is left.
    """
    rules: dict[int, set[str]] = {}
    for finding in findings:
        if finding.rule not in _NEVER:
            rules.setdefault(finding.line, set()).add(finding.rule)
    lines = text.encode().splitlines(keepends=True)
    places = _Places(text)
    for line in sorted(rules, reverse=True):
        if line <= len(lines):
            _add(lines, line, rules[line], places)
    return b"".join(lines).decode()


def _add(
    lines: list[bytes], line: int, rules: set[str], places: _Places
) -> None:
    body = lines[line - 1].decode()
    code = body.rstrip("\r\n")
    end = body[len(code) :]
    held = _BRACKETS.search(code) if line in places.commented else None
    if held:
        names = {
            name.strip() for name in held[2].split(",") if name.strip()
        } | rules
        code = f"{code[: held.start()]}{held[1]}{', '.join(sorted(names))}]{code[held.end() :]}"
    elif line not in places.closed:
        code = f"{code.rstrip()}  {_comment(rules)}"
    elif line in places.first:
        indent = code[: len(code) - len(code.lstrip())]
        code = f"{indent}{_comment(rules)}{end or chr(10)}{code}"
    lines[line - 1] = (code + end).encode()


def _comment(rules: set[str]) -> str:
    return f"# amp-migrate: ignore[{', '.join(sorted(rules))}]"


class _Places:
    """Where comments can go: lines that end in a string or a backslash are closed to them."""

    def __init__(self, text: str) -> None:
        self.closed: set[int] = set()
        self.first: set[int] = set()
        self.commented: set[int] = set()
        start = True
        for token in tokenize.generate_tokens(
            io.StringIO(text, newline="").readline
        ):
            self._token(token)
            if token.type in (
                tokenize.NEWLINE,
                tokenize.NL,
                tokenize.INDENT,
                tokenize.DEDENT,
            ):
                start = start or token.type == tokenize.NEWLINE
            elif token.type != tokenize.COMMENT:
                if start:
                    self.first.add(token.start[0])
                start = False
        lines = text.encode().splitlines()
        self.closed |= {
            number
            for number, line in enumerate(lines, 1)
            if line.rstrip().endswith(b"\\")
        }

    def _token(self, token: tokenize.TokenInfo) -> None:
        self.closed.update(
            range(token.start[0], token.end[0])
            if token.type not in _LINE_ENDS
            else ()
        )
        if token.type == tokenize.COMMENT:
            self.commented.add(token.start[0])


_LINE_ENDS = (tokenize.NEWLINE, tokenize.NL)
