"""Findings on a terminal: where, what, the line with a caret, what it conflicts with, and the way
out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import click

from amp_migrate.checks._finding import Finding
from amp_migrate.display import escaped, place
from amp_migrate.pipeline.lint.results import Report

_COLOURS = {"error": "red", "warning": "yellow", "info": "blue"}
_TAB = 4


def heading(finding: Finding, colour: bool) -> str:
    """`path:line:column: severity rule: message [*]`; the mark says that `--fix` mends it."""
    where = place(finding.path, finding.line, finding.column, finding.cell)
    mark = " [*]" if finding.fix and finding.fix.safety == "safe" else ""
    message = escaped(finding.message)
    if not colour:
        return f"{where}: {finding.severity} {finding.rule}: {message}{mark}"
    kind = click.style(
        f"{finding.severity} {finding.rule}",
        fg=_COLOURS[finding.severity],
        bold=True,
    )
    return f"{click.style(where, bold=True)}: {kind}: {message}{click.style(mark, fg='cyan')}"


def blocks(reports: Sequence[Report], colour: bool) -> Iterator[str]:
    """One block for each finding, with an empty line after it."""
    for report in reports:
        for finding in report.findings:
            yield (
                "\n".join(
                    [
                        heading(finding, colour),
                        *_details(finding, report.line(finding), colour),
                    ]
                )
                + "\n\n"
            )


def _details(finding: Finding, line: str, colour: bool) -> Iterator[str]:
    width = len(str(finding.line))
    if line.strip():
        yield from _excerpt(finding, line, width, colour)
    for number, _, said in finding.related:
        yield _labelled("note", f"{said}, line {number}", width, colour)
    if finding.fix is not None:
        flag = "--fix" if finding.fix.safety == "safe" else "--unsafe-fixes"
        yield _labelled("fix", f"{finding.fix.message} ({flag})", width, colour)


def _excerpt(
    finding: Finding, line: str, width: int, colour: bool
) -> Iterator[str]:
    start = finding.column - 1
    end = (
        finding.end_column - 1
        if finding.end_line == finding.line
        else len(line.rstrip())
    )
    before = _printed(line[:start])
    caret = "^" * max(_cells(line[start:end]), 1)
    bar = click.style("|", dim=True) if colour else "|"
    yield f"{'':{width}} {bar}"
    yield f"{finding.line:{width}} {bar} {_printed(line.rstrip())}"
    marked = (
        click.style(caret, fg=_COLOURS[finding.severity]) if colour else caret
    )
    yield f"{'':{width}} {bar} {' ' * _cells(before)}{marked}"


def _printed(text: str) -> str:
    """Without what moves a terminal's cursor."""
    return "".join(
        char if char.isprintable() else "?"
        for char in text.replace("\t", " " * _TAB)
    )


def _cells(text: str) -> int:
    """How many cells of a terminal `text` takes."""
    printed = _printed(text)
    if printed.isascii():
        return len(printed)
    import unicodedata

    marks = sum(unicodedata.combining(char) > 0 for char in printed)
    return (
        len(printed)
        + sum(unicodedata.east_asian_width(char) in "WF" for char in printed)
        - marks
    )


def _labelled(label: str, said: str, width: int, colour: bool) -> str:
    mark = click.style("=", dim=True) if colour else "="
    name = click.style(label, bold=True) if colour else label
    return f"{'':{width}} {mark} {name}: {escaped(said)}"


def statistics(findings: Sequence[Finding], colour: bool) -> Iterator[str]:
    """Counts by rule, the most frequent first; `[*]` marks rules that have a safe fix here."""
    counts = Counter(finding.rule for finding in findings)
    safe = {
        finding.rule
        for finding in findings
        if finding.fix and finding.fix.safety == "safe"
    }
    width = len(str(max(counts.values(), default=0)))
    for rule, count in sorted(
        counts.items(), key=lambda item: (-item[1], item[0])
    ):
        mark = "*" if rule in safe else " "
        yield f"{count:>{width}}  [{mark}] {click.style(rule, bold=True) if colour else rule}"


def closing(reports: Sequence[Report], unsafe: bool) -> str:
    """The last line: how much was found, how much is mended, how much can be."""
    findings = [finding for report in reports for finding in report.findings]
    applied = sum(len(report.applied) for report in reports)
    tried = {left.finding for report in reports for left in report.left}
    if applied and not findings:
        return f"Fixed {applied:,}; nothing is left ({_many(len(reports), 'file')} looked at)."
    said = [f"fixed {applied:,}"] if applied else []
    said.append(
        f"{_many(len(findings), 'finding')} in "
        f"{_many(sum(bool(r.findings) for r in reports), 'file')}"
    )
    if not findings and not applied:
        return f"Nothing found in {_many(len(reports), 'file')}."
    text = ", ".join(said)
    return (
        text[0].upper()
        + text[1:]
        + f" ({_many(len(reports), 'file')} looked at)."
        + _fixable((one for one in findings if one not in tried), unsafe)
    )


def _fixable(findings: Iterable[Finding], unsafe: bool) -> str:
    counts = Counter(finding.fix.safety for finding in findings if finding.fix)
    said = (
        [f"{counts['safe']:,} can be fixed with --fix"]
        if counts["safe"]
        else []
    )
    if counts["unsafe"] and not unsafe:
        said.append(f"{counts['unsafe']:,} with --unsafe-fixes")
    return " " + ", ".join(said) + "." if said else ""


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
