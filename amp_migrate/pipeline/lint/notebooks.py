"""Findings in a notebook, told by cell and line instead of by the line of its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from amp_migrate.checks._finding import Finding
from amp_migrate.config import Settings
from amp_migrate.pipeline.lint.results import Left, Report
from amp_migrate.pipeline.lint.selection import selected
from amp_migrate.project import notebook
from amp_migrate.project.json_spans import split_lines
from amp_migrate.project.notebook_cells import Places

_MARK = re.compile(r"  # %% \d+ [0-9a-f]{12}$")


def by_cell(
    report: Report, text: str, data: bytes, settings: Settings, relative: str
) -> Report:
    """`report`, which is about `text`, as one about the notebook `data` that holds this text."""
    book = notebook.decode(data)
    cells = _Cells(
        Places.of(text),
        {cell.number: split_lines(cell.source) for cell in book.cells},
        dict(report.lines),
    )
    found = [
        *map(cells.placed, report.findings),
        *_unread(book, report.path, settings, relative),
    ]
    findings = sorted(
        found, key=lambda one: (one.cell or 0, one.line, one.column, one.rule)
    )
    return report._replace(
        findings=tuple(findings),
        lines=tuple(
            ((one.cell, one.line), cells.line(one)) for one in findings
        ),
        applied=tuple(map(cells.placed, report.applied)),
        left=tuple(
            Left(cells.placed(one.finding), cells.places.told(one.why))
            for one in report.left
        ),
    )


@dataclass(frozen=True)
class _Cells:
    places: Places
    sources: dict[int, list[str]]
    lines: dict[tuple[int | None, int], str]

    def placed(self, finding: Finding) -> Finding:
        """The finding by cell; columns count what IPython takes away before a statement."""
        cell, line = self.places.at(finding.line)
        shift = self._shift(finding, cell, line)
        return finding._replace(
            cell=cell,
            line=line,
            column=finding.column + shift,
            end_line=line + finding.end_line - finding.line,
            end_column=finding.end_column
            + (shift if finding.end_line == finding.line else 0),
            message=self.places.told(finding.message),
            related=tuple(self._related(*one) for one in finding.related),
        )

    def line(self, finding: Finding) -> str:
        return self._source(finding.cell or 0, finding.line)

    def _source(self, cell: int, line: int) -> str:
        lines = self.sources.get(cell, [])
        return lines[line - 1].rstrip("\r\n") if line <= len(lines) else ""

    def _related(
        self, line: int, column: int, said: str
    ) -> tuple[int, int, str]:
        cell, inside = self.places.at(line)
        return inside, column, f"{said}, cell {cell}"

    def _shift(self, finding: Finding, cell: int, line: int) -> int:
        """How far the cell's line stands right of the text's."""
        real = self._source(cell, line)
        code = _MARK.sub("", self.lines.get((None, finding.line), real))
        return len(real) - len(code) if real.endswith(code.lstrip()) else 0


def _unread(
    book: notebook.Notebook, path: str, settings: Settings, relative: str
) -> Iterator[Finding]:
    """Cells that do not parse are findings, as files are."""
    if any(
        check.rule.name == "syntax" for check in selected(settings, relative)
    ):
        for one in book.left_out:
            if one.reason == "syntax":
                message = f"{one.message}: mend it, or use the Python it is written for"
                yield Finding(
                    "syntax",
                    message,
                    "error",
                    path,
                    one.line,
                    1,
                    one.line,
                    2,
                    cell=one.cell,
                )
