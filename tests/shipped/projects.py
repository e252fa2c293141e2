"""Little projects in Markdown, as test cases.

A heading begins a project; each block below it, ```` ```python train.py ````, is one of its
files. A line that ends in the comment `# error RULE` must be reported there by that rule; a file
without one is a near miss; a line may name several rules, with commas between. `# missed RULE` marks a mistake that is not found yet. The line
`Source: ...` tells where the mistake was met.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HEADING = re.compile(r"(?m)^## (.+)$")
_FILE = re.compile(r"(?ms)^```python ([\w/.]+)\n(.*?)^```[ \t]*$")
_SOURCE = re.compile(r"(?m)^Source: (.+)$")
_MARK = re.compile(r"[ \t]*# (error|missed) ([\w=, -]+)$")

Expected = tuple[str, int, str]
"""File, 1-based line, rule."""


@dataclass(frozen=True)
class LittleProject:
    """One project and what lint must say about it."""

    title: str
    source: str
    files: tuple[tuple[str, str], ...]
    """Names and texts, without marks."""
    errors: frozenset[Expected]
    missed: frozenset[Expected]

    @property
    def id(self) -> str:
        """The heading, for the name of a test."""
        return self.title.replace(" ", "-")


def projects(path: Path) -> list[LittleProject]:
    """The projects of a Markdown file, in order."""
    text = path.read_text(encoding="utf-8")
    heads = [*_HEADING.finditer(text)]
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return [
        _project(head[1], text[head.end() : end]) for head, end in zip(heads, ends, strict=False)
    ]


def _project(title: str, text: str) -> LittleProject:
    files: list[tuple[str, str]] = []
    marks: dict[str, set[Expected]] = {"error": set(), "missed": set()}
    for name, body in _FILE.findall(text):
        lines = body.splitlines()
        for number, line in enumerate(lines, 1):
            if mark := _MARK.search(line):
                marks[mark[1]] |= {(name, number, rule) for rule in mark[2].split(", ")}
        files.append((name, "".join(_MARK.sub("", line) + "\n" for line in lines)))
    if not files:
        raise ValueError(f"{title}: no file")
    source = _SOURCE.search(text)
    return LittleProject(
        title,
        source[1] if source else "",
        tuple(files),
        frozenset(marks["error"]),
        frozenset(marks["missed"]),
    )
