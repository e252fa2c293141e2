"""SARIF 2.1.0, the format of GitHub's code scanning and of most viewers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from amp_migrate import __version__
from amp_migrate.checks._finding import Finding
from amp_migrate.pipeline.lint.results import Report
from amp_migrate.report import pages
from amp_migrate.report.ci import fingerprint, in_file, relative

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def log(reports: Sequence[Report]) -> str:
    """One run, with the rules that found something and their pages."""
    rules = sorted(
        {finding.rule for report in reports for finding in report.findings}
    )
    seen: Counter[str] = Counter()
    results = [
        _result(finding, report, rules, seen)
        for report in reports
        for finding in report.findings
    ]
    driver = {
        "name": "amp-migrate",
        "semanticVersion": __version__,
        "rules": [_rule(name) for name in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return (
        json.dumps(
            {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2
        )
        + "\n"
    )


def _rule(name: str) -> dict[str, object]:
    page = pages.find(name)
    return {
        "id": name,
        "name": "".join(
            part.capitalize() for part in name.replace("_", "-").split("-")
        ),
        "shortDescription": {"text": page.summary},
        "help": {"text": page.text, "markdown": page.text},
        "defaultConfiguration": {"level": _LEVELS[page.severity or "error"]},
        "properties": {"tags": ["correctness", "mixed-precision"]},
    }


def _result(
    finding: Finding, report: Report, rules: Sequence[str], seen: Counter[str]
) -> dict[str, object]:
    name = fingerprint(finding, report, seen)
    finding = in_file(finding)
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": _place(finding)}],
        "partialFingerprints": {"amp-migrate/v1": name},
    }
    if finding.related:
        result["relatedLocations"] = [
            _related(finding, index) for index in range(len(finding.related))
        ]
    return result


def _place(finding: Finding) -> dict[str, object]:
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    return {"artifactLocation": _artifact(finding.path), "region": region}


def _related(finding: Finding, index: int) -> dict[str, object]:
    line, column, said = finding.related[index]
    place = {
        "artifactLocation": _artifact(finding.path),
        "region": {"startLine": line, "startColumn": column},
    }
    return {
        "id": index + 1,
        "message": {"text": said},
        "physicalLocation": place,
    }


def _artifact(path: str) -> dict[str, str]:
    shown = relative(path)
    if shown.startswith("/"):
        return {"uri": "file://" + quote(shown)}
    return {"uri": quote(shown), "uriBaseId": "%SRCROOT%"}
