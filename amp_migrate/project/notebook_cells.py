"""The text of a notebook: its cells one after another, a mark above each, and positions by cell
and line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace

from amp_migrate.outcome import Change, FileOutcome, LoopOutcome, Note

_SEPARATOR = re.compile(r'"%% cell (\d+) [0-9a-f]{12}"')
_SEPARATOR_LINE = re.compile(rf"^{_SEPARATOR.pattern}$", re.MULTILINE)
_LINE = re.compile(r"\bline (\d+)\b")


def separator(cell: int, digest: str) -> str:
    """The line above a cell: a string, since statements keep their place where comments move."""
    return f'"%% cell {cell} {digest}"'


def is_separator(source: str) -> bool:
    """Whether a statement is the mark between two cells."""
    return _SEPARATOR.fullmatch(source) is not None


def split(text: str) -> list[tuple[int, str]]:
    """The cells of a notebook's text: their numbers and what stands in them."""
    marks = list(_SEPARATOR_LINE.finditer(text))
    ends = (*(mark.start() for mark in marks[1:]), len(text))
    return [
        (int(mark[1]), text[mark.end() + 1 : end])
        for mark, end in zip(marks, ends, strict=False)
    ]


@dataclass(frozen=True)
class Places:
    """From lines of a notebook's text to cells and lines in them, all 1-based; cells count as
    Jupyter shows them.
    """

    above: tuple[int, ...]
    """The line of the mark above each cell."""
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Places:
        marks = list(_SEPARATOR_LINE.finditer(text))
        above, at, line = [], 0, 1
        for mark in marks:
            line += text.count("\n", at, mark.start())
            at = mark.start()
            above.append(line)
        return cls(tuple(above), tuple(int(mark[1]) for mark in marks))

    def at(self, line: int) -> tuple[int, int]:
        """Cell and line in it."""
        index = bisect_right(self.above, line) - 1
        return (
            (self.numbers[index], max(line - self.above[index], 1))
            if index >= 0
            else (1, 1)
        )

    def line(self, cell: int, line: int) -> int:
        """The line of the text."""
        return self.above[self.numbers.index(cell)] + line

    def told(self, message: str) -> str:
        """A message with its lines told by cell."""
        return _LINE.sub(
            lambda found: "cell {}, line {}".format(*self.at(int(found[1]))),
            message,
        )

    def outcome(self, outcome: FileOutcome) -> FileOutcome:
        """What became of the text, told by cell and line."""
        return replace(
            outcome,
            loops=tuple(map(self._loop, outcome.loops)),
            notes=tuple(map(self._note, outcome.notes)),
            changes=tuple(map(self._change, outcome.changes)),
            error=self._error(outcome.path, outcome.error),
        )

    def _loop(self, one: LoopOutcome) -> LoopOutcome:
        cell, line = self.at(one.line)
        return replace(
            one,
            cell=cell,
            line=line,
            message=one.message and self.told(one.message),
        )

    def _note(self, one: Note) -> Note:
        cell, line = self.at(one.line)
        return replace(
            one, cell=cell, line=line, message=self.told(one.message)
        )

    def _change(self, one: Change) -> Change:
        cell, line = self.at(one.line)
        return replace(one, cell=cell, line=line)

    def _error(self, path: str, error: str | None) -> str | None:
        found = (
            re.match(r":(\d+)", error[len(path) :])
            if error and error.startswith(path)
            else None
        )
        if error is None or not found:
            return error
        cell, line = self.at(int(found[1]))
        return f"{path}:cell {cell}:{line}{self.told(error[len(path) + found.end() :])}"
