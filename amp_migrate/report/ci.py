"""Findings for machines that build: GitHub's workflow commands, GitLab's code quality report,
JUnit XML.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from amp_migrate.checks._finding import Finding
from amp_migrate.display import escaped, place
from amp_migrate.pipeline.lint.results import Report

_LINES = "\r\n"
_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}
# GitLab's scale; a mistake that trains wrong, one that costs something, one that is style.
_SEVERITIES = {"error": "critical", "warning": "major", "info": "info"}


def annotation(finding: Finding) -> str:
    """`::error file=...,line=...::message`, escaped as GitHub reads it."""
    told = (
        f"{place(finding.path, finding.line, finding.column, finding.cell)}: {finding.rule}: "
        f"{finding.message}"
    )
    finding = in_file(finding)
    where = f"file={_property(finding.path)},line={finding.line},endLine={finding.end_line}"
    # GitHub takes columns only where a finding is on one line.
    if finding.line == finding.end_line:
        where += f",col={finding.column},endColumn={finding.end_column}"
    title = _property(f"amp-migrate ({finding.rule})")
    return (
        f"::{_LEVELS[finding.severity]} "
        f"title={title},{where}::{_data(escaped(told, keep=_LINES))}"
    )


def in_file(finding: Finding) -> Finding:
    """The finding for services that count lines of files: in a notebook at its top, the cell in
    the message.
    """
    if finding.cell is None:
        return finding
    message = f"cell {finding.cell}, line {finding.line}: {finding.message}"
    return finding._replace(
        line=1, column=1, end_line=1, end_column=2, message=message, related=()
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def code_quality(reports: Sequence[Report]) -> str:
    """The array that GitLab's `codequality` artifact wants; fingerprints hold when lines move."""
    seen: Counter[str] = Counter()
    entries = [
        _quality(finding, report, seen)
        for report in reports
        for finding in report.findings
    ]
    return json.dumps(entries, indent=2) + "\n"


def _quality(
    finding: Finding, report: Report, seen: Counter[str]
) -> dict[str, object]:
    path = relative(finding.path)
    name = fingerprint(finding, report, seen)
    finding = in_file(finding)
    return {
        "description": finding.message,
        "check_name": finding.rule,
        "fingerprint": name,
        "severity": _SEVERITIES[finding.severity],
        "location": {
            "path": path,
            "lines": {"begin": finding.line, "end": finding.end_line},
        },
    }


def fingerprint(finding: Finding, report: Report, seen: Counter[str]) -> str:
    """A name of the finding that does not change with its line; `seen` tells equal ones apart."""
    code = " ".join(report.line(finding).split())
    key = "\0".join((finding.rule, relative(finding.path), finding.scope, code))
    seen[key] += 1
    return hashlib.sha256(f"{key}\0{seen[key]}".encode()).hexdigest()[:32]


def relative(path: str) -> str:
    """The path as CI services know it: below the current folder, with slashes."""
    import os
    from pathlib import Path

    if Path(path).is_absolute():
        below = os.path.relpath(path)
        path = path if below.startswith("..") else below
    path = path.replace(os.sep, "/")
    return path.removeprefix("./")


def junit_xml(reports: Sequence[Report]) -> str:
    """A suite for each file, a failed case for each finding, and a case that passes for a file
    without any.

    Only what Jenkins' `junit-10.xsd` allows: other readers take less or the same.
    """
    total = sum(max(len(report.findings), 1) for report in reports)
    failures = sum(len(report.findings) for report in reports)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuites name="amp-migrate" tests="{total}" failures="{failures}" errors="0">',
        *(line for report in reports for line in _suite(report)),
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _suite(report: Report) -> list[str]:
    name = _attribute(report.path)
    count = len(report.findings)
    head = f'  <testsuite name={name} tests="{max(count, 1)}" errors="0" failures="{count}">'
    cases = [line for finding in report.findings for line in _case(finding)]
    return [
        head,
        *(cases or [f'    <testcase name="amp-migrate" classname={name}/>']),
        "  </testsuite>",
    ]


def _case(finding: Finding) -> list[str]:
    where = "" if finding.cell is None else f"cell {finding.cell}, "
    where += f"line {finding.line}, column {finding.column}"
    name, owner = (
        _attribute(f"{finding.rule} ({where})"),
        _attribute(finding.path),
    )
    told = (
        f"type={_attribute(finding.rule)} message={_attribute(finding.message)}"
    )
    return [
        f"    <testcase name={name} classname={owner}>",
        f"      <failure {told}>{escape(_clean(f'{where}: {finding.message}'))}</failure>",
        "    </testcase>",
    ]


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(
        char if char >= " " or char in "\t\n" else "?" for char in text
    )
