"""Positions of the original file on the code of the rewritten one, so that tracebacks show what
the user wrote.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.project.line_diff import opcodes

_WORD = re.compile(r"\w+")
_LINE_END = re.compile(
    r"\r\n|\r|\n"
)  # as Python counts lines; splitlines also breaks at form feeds


@dataclass(frozen=True)
class LineMap:
    """By line of the rewritten text (1-based; place 0 is unused): the original's line, and whether
    it is the same.
    """

    line: tuple[int, ...]
    same: tuple[bool, ...]
    shift: tuple[int, ...]
    """Columns to add, in bytes, on lines that are the same but for their indentation."""
    original: tuple[str, ...]


def line_map(original: str, rewritten: str) -> LineMap:
    """Align two versions of a module line by line; indentation does not count."""
    old, new = _LINE_END.split(original), _LINE_END.split(rewritten)
    lines, same, shift = [1], [False], [0]
    found = opcodes([x.strip() for x in old], [x.strip() for x in new])
    for kind, old_from, old_to, new_from, new_to in found:
        if kind == "equal":
            pairs = list(
                zip(
                    range(old_from, old_to),
                    range(new_from, new_to),
                    strict=True,
                )
            )
            lines += [i + 1 for i, _ in pairs]
            shift += [_indent(old[i]) - _indent(new[j]) for i, j in pairs]
        elif kind == "replace":
            lines += _paired(old, range(old_from, old_to), new[new_from:new_to])
        elif kind == "insert":
            lines += [
                _neighbour(new[j], old_from, old)
                for j in range(new_from, new_to)
            ]
        same += [kind == "equal"] * (new_to - new_from)
        shift += [0] * (len(same) - len(shift))
    return LineMap(tuple(lines), tuple(same), tuple(shift), tuple(old))


def _paired(old: list[str], places: range, new: list[str]) -> list[int]:
    """For each changed line the one it most resembles, in order."""
    result, place = [], places.start
    for text in new:
        words = set(_WORD.findall(text))
        scores = {
            i: len(words & set(_WORD.findall(old[i])))
            for i in range(place, places.stop)
        }
        place = max(scores, key=lambda i: (scores[i], -i))
        result.append(place + 1)
    return result


def _neighbour(text: str, before: int, old: list[str]) -> int:
    """A `with` header belongs to the statement below it, anything else that is new to the one
    above.
    """
    if not text.rstrip().endswith(":"):
        return max(before, 1)
    below = (
        i + 1
        for i in range(before, len(old))
        if old[i].strip() and not old[i].lstrip().startswith("#")
    )
    return next(below, max(len(old), 1))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def relocate(tree: ast.Module, lines: LineMap) -> None:
    """Give every node of the rewritten `tree` its position in the original file, in place."""
    for node in nodes_in(tree):
        if isinstance(
            node,
            (
                ast.expr,
                ast.stmt,
                ast.excepthandler,
                ast.arg,
                ast.keyword,
                ast.alias,
                ast.pattern,
            ),
        ):
            _place(node, lines)


def _place(
    node: ast.expr
    | ast.stmt
    | ast.excepthandler
    | ast.arg
    | ast.keyword
    | ast.alias
    | ast.pattern,
    lines: LineMap,
) -> None:
    first, last = (
        min(node.lineno, len(lines.line) - 1),
        min(node.end_lineno or node.lineno, len(lines.line) - 1),
    )
    start, end = lines.line[first], max(lines.line[last], lines.line[first])
    whole = not (lines.same[first] and lines.same[last])
    text_first, text_last = (
        lines.original[start - 1 : start],
        lines.original[end - 1 : end],
    )
    # Without the exact columns the whole line is meant: then a traceback shows it without marks
    # below.
    node.col_offset = (
        _indent(text_first[0])
        if whole and text_first
        else max(node.col_offset + lines.shift[first], 0)
    )
    end_column = (node.end_col_offset or 0) + lines.shift[last]
    node.end_col_offset = (
        len(text_last[0].encode())
        if whole and text_last
        else max(end_column, 0)
    )
    node.lineno, node.end_lineno = start, end
    if start == end and node.end_col_offset < node.col_offset:
        node.end_col_offset = node.col_offset
