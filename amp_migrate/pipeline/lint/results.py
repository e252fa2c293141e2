"""What the linter says of a module, and what becomes of its file."""

from __future__ import annotations

from typing import TypeAlias

from amp_migrate.checks._finding import Finding
from amp_migrate.records import NamedTuple

Place: TypeAlias = tuple[int | None, int]
"""Cell, where the file is a notebook, and line."""


class Crash(NamedTuple):
    """A rule that failed on a file; it reports nothing there, the others do."""

    rule: str
    path: str
    trace: str


class Linted(NamedTuple):
    """What the rules say about one module. `suppressed` are the rules that comments
    silence in it.
    """

    findings: tuple[Finding, ...] = ()
    crashes: tuple[Crash, ...] = ()
    suppressed: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    """What the rules did not look at."""


class Left(NamedTuple):
    """A fix that was wanted and not made, and why."""

    finding: Finding
    why: str


class Fixed(NamedTuple):
    """The mended text, what was mended, what could not be, and what the rules say about the new
    text.
    """

    text: str
    applied: tuple[Finding, ...]
    left: tuple[Left, ...]
    linted: Linted


class Report(NamedTuple):
    """What became of one file."""

    path: str
    findings: tuple[Finding, ...] = ()
    crashes: tuple[Crash, ...] = ()
    lines: tuple[tuple[Place, str], ...] = ()
    """Place and text of the lines that findings show."""
    applied: tuple[Finding, ...] = ()
    left: tuple[Left, ...] = ()
    before: bytes = b""
    after: bytes = b""
    """The file's bytes, where fixes change them."""
    encoding: str = "utf-8"
    notes: tuple[str, ...] = ()

    def joined(self, other: Report) -> Report:
        """The report with the findings of another one about the same file."""
        findings = {*self.findings, *other.findings}
        return self._replace(
            findings=tuple(
                sorted(
                    findings, key=lambda one: (one.line, one.column, one.rule)
                )
            ),
            lines=tuple(dict.fromkeys((*self.lines, *other.lines))),
        )

    def line(self, finding: Finding) -> str:
        """The text of the line that a finding is in."""
        return dict(self.lines).get((finding.cell, finding.line), "")
