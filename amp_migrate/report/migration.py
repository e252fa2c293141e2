"""What became of a migration, as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from amp_migrate.outcome import Change, FileOutcome, LoopOutcome, Note


def as_json(outcomes: Sequence[FileOutcome], complete: bool = True) -> str:
    """The report that scripts read, version 1; an interrupted run is not `complete`."""
    report: dict[str, Any] = {
        "version": 1,
        "complete": complete,
        "files": [_file(one) for one in outcomes],
        "summary": counts(outcomes),
    }
    return json.dumps(report, indent=2)


def _file(outcome: FileOutcome) -> dict[str, object]:
    fields: dict[str, object] = {
        "path": outcome.path,
        "status": outcome.status,
        "loops": [
            {
                **_line(one),
                "scope": one.scope,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
            }
            for one in outcome.loops
        ],
    }
    if outcome.changes:
        fields["changes"] = [
            {
                **_line(one),
                "kind": one.kind,
                "message": one.message,
                "why": one.why,
            }
            for one in outcome.changes
        ]
    if outcome.notes:
        fields["notes"] = [
            {
                **_line(one),
                "column": one.column,
                "message": one.message,
                "kind": one.kind,
            }
            for one in outcome.notes
        ]
    if outcome.error is not None:
        fields["error"] = outcome.error
    return fields


def _line(one: LoopOutcome | Note | Change) -> dict[str, object]:
    return (
        {"line": one.line}
        if one.cell is None
        else {"cell": one.cell, "line": one.line}
    )


def counts(outcomes: Iterable[FileOutcome]) -> dict[str, dict[str, int]]:
    """How many files and loops there are of each status."""
    outcomes = list(outcomes)
    files = Counter(one.status for one in outcomes)
    loops = Counter(loop.status for one in outcomes for loop in one.loops)
    return {
        "files": {
            status: files[status]
            for status in ("migrated", "unchanged", "refused", "failed")
        },
        "loops": {
            status: loops[status]
            for status in ("migrated", "refused", "skipped")
        },
    }
