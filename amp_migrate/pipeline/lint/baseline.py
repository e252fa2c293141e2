"""A baseline: today's findings by rule, path, scope and code, so that moved lines stay known and
new ones are seen.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from amp_migrate.checks._finding import Finding
from amp_migrate.pipeline.lint.results import Report

Key: TypeAlias = tuple[str, str, str, str]
_FIELDS = ("rule", "path", "scope", "code")


class BaselineError(ValueError):
    """A baseline file that cannot be used; the message names it and says what to do."""


def write(file: Path, reports: Sequence[Report]) -> None:
    """Keep the findings of `reports` in `file`. Raises BaselineError."""
    import json

    counts = Counter(_keys(reports, file))
    entries = [
        {**dict(zip(_FIELDS, key, strict=True)), "count": count}
        for key, count in sorted(counts.items())
    ]
    try:
        file.write_text(
            json.dumps({"version": 1, "findings": entries}, indent=2) + "\n",
            encoding="utf-8",
        )
    except OSError as error:
        raise BaselineError(
            f"{file}: cannot be written: {error.strerror}"
        ) from None


def read(file: Path) -> Counter[Key]:
    """How many findings of each kind are known. Raises BaselineError."""
    import json

    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        return Counter(
            {
                _key_of(entry): int(entry["count"])
                for entry in document["findings"]
            }
        )
    except OSError as error:
        remedy = f"make it with --write-baseline {file}"
        raise BaselineError(
            f"{file}: cannot be read: {error.strerror}; {remedy}"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise BaselineError(
            f"{file}: this is no baseline; make it anew with --write-baseline {file}"
        ) from None


def _key_of(entry: dict[str, Any]) -> Key:
    rule, path, scope, code = (str(entry[name]) for name in _FIELDS)
    return rule, path, scope, code


def without_known(
    reports: Sequence[Report], known: Counter[Key], file: Path
) -> tuple[Report, ...]:
    """The reports without the findings that the baseline `file` knows."""
    rest = Counter(known)
    return tuple(
        report._replace(findings=tuple(_new(report, rest, file)))
        for report in reports
    )


def _new(report: Report, rest: Counter[Key], file: Path) -> Iterator[Finding]:
    for finding, key in zip(
        report.findings, _keys([report], file), strict=True
    ):
        if rest[key]:
            rest[key] -= 1
        else:
            yield finding


def _keys(reports: Sequence[Report], file: Path) -> Iterator[Key]:
    base = file.absolute().parent
    for report in reports:
        path = os.path.relpath(report.path, base).replace(os.sep, "/")
        for finding in report.findings:
            yield (
                finding.rule,
                path,
                finding.scope,
                " ".join(report.line(finding).split()),
            )
