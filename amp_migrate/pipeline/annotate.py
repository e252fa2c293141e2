"""Comments for people who learn: above the first construct of each kind, why it is there."""

from __future__ import annotations

import ast

from amp_migrate.pipeline.changes import Found, constructs

MARK = "# AMP: "


def annotated(before: str, after: str) -> str:
    """`after`, which was made of `before`, with a comment above what is new; the same program."""
    firsts: dict[str, Found] = {}
    for found in constructs(before, after):
        firsts.setdefault(found.construct.kind, found)
    text = after
    for found in sorted(firsts.values(), key=lambda one: -one.new_line):
        commented = _with_comment(text, found)
        # A line may be part of a string or go on after a backslash.
        if _same(commented, text):
            text = commented
    return text


def _with_comment(text: str, found: Found) -> str:
    lines = text.split("\n")
    line = lines[found.new_line - 1]
    indent = line[: len(line) - len(line.lstrip())]
    end = "\r" if line.endswith("\r") else ""
    lines.insert(
        found.new_line - 1, f"{indent}{MARK}{found.construct.why}{end}"
    )
    return "\n".join(lines)


def _same(text: str, other: str) -> bool:
    try:
        return ast.dump(ast.parse(text)) == ast.dump(ast.parse(other))
    except (SyntaxError, ValueError):
        return False
