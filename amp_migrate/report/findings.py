"""Findings for people and programs: the formats of `amp-migrate lint --output-format`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from amp_migrate.checks._finding import Finding
from amp_migrate.pipeline.lint.results import Report

Renderer: TypeAlias = Callable[[Sequence[Report], bool], str]
"""The whole output for these reports, with a newline at its end; the flag asks for colours."""


def text(reports: Sequence[Report], colour: bool) -> str:
    """Each finding with its source line and a caret."""
    from amp_migrate.report.text import blocks

    return "".join(blocks(reports, colour))


def concise(reports: Sequence[Report], colour: bool) -> str:
    """One line for each finding, as editors and grep read it."""
    from amp_migrate.report.text import heading

    return "".join(
        heading(finding, colour) + "\n" for finding in every(reports)
    )


def as_json(reports: Sequence[Report], colour: bool) -> str:
    """One array."""
    import json

    return (
        json.dumps([fields(finding) for finding in every(reports)], indent=2)
        + "\n"
    )


def json_lines(reports: Sequence[Report], colour: bool) -> str:
    """One object a line."""
    import json

    return "".join(
        json.dumps(fields(finding)) + "\n" for finding in every(reports)
    )


def github(reports: Sequence[Report], colour: bool) -> str:
    """Workflow commands, which GitHub shows as annotations."""
    from amp_migrate.report.ci import annotation

    return "".join(annotation(finding) + "\n" for finding in every(reports))


def gitlab(reports: Sequence[Report], colour: bool) -> str:
    """GitLab's code quality report."""
    from amp_migrate.report.ci import code_quality

    return code_quality(reports)


def junit(reports: Sequence[Report], colour: bool) -> str:
    """JUnit XML: a test suite for each file."""
    from amp_migrate.report.ci import junit_xml

    return junit_xml(reports)


def sarif(reports: Sequence[Report], colour: bool) -> str:
    """SARIF 2.1.0."""
    from amp_migrate.report.sarif import log

    return log(reports)


FORMATS: Mapping[str, Renderer] = {
    "text": text,
    "concise": concise,
    "json": as_json,
    "json-lines": json_lines,
    "github": github,
    "gitlab": gitlab,
    "junit": junit,
    "sarif": sarif,
}


def every(reports: Sequence[Report]) -> list[Finding]:
    """All findings, in the order of files and lines."""
    return [finding for report in reports for finding in report.findings]


def fields(finding: Finding) -> dict[str, object]:
    """What scripts read about a finding."""
    fix = finding.fix
    return {
        "rule": finding.rule,
        "message": finding.message,
        "severity": finding.severity,
        "path": finding.path,
        **({} if finding.cell is None else {"cell": finding.cell}),
        "line": finding.line,
        "column": finding.column,
        "end_line": finding.end_line,
        "end_column": finding.end_column,
        "related": [
            {"line": line, "column": column, "message": said}
            for line, column, said in finding.related
        ],
        "fix": None
        if fix is None
        else {"safety": fix.safety, "message": fix.message},
    }
