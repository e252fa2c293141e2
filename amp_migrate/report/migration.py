"""What became of a migration: a summary for people, JSON for programs, and diffs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import click

from amp_migrate.outcome import FileOutcome, LoopOutcome, Note
from amp_migrate.source.prefilter import is_notebook
from amp_migrate.telling import place

_COLOURS = {"migrated": "green", "refused": "yellow", "skipped": "cyan", "failed": "red", "note": "blue"}
_INDENT = " " * 10


def as_json(outcomes: Sequence[FileOutcome]) -> str:
    """The report that scripts read, version 1."""
    import json

    report = {"version": 1, "files": [_file(one) for one in outcomes], "summary": _counts(outcomes)}
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
    if outcome.notes:
        fields["notes"] = [{**_line(one), "column": one.column, "message": one.message} for one in outcome.notes]
    if outcome.error is not None:
        fields["error"] = outcome.error
    return fields


def _line(one: LoopOutcome | Note) -> dict[str, object]:
    return {"line": one.line} if one.cell is None else {"cell": one.cell, "line": one.line}


def _counts(outcomes: Sequence[FileOutcome]) -> dict[str, dict[str, int]]:
    files = Counter(one.status for one in outcomes)
    loops = Counter(loop.status for one in outcomes for loop in one.loops)
    return {
        "files": {status: files[status] for status in ("migrated", "unchanged", "refused", "failed")},
        "loops": {status: loops[status] for status in ("migrated", "refused", "skipped")},
    }


def summary(outcomes: Sequence[FileOutcome], written: bool, width: int) -> Iterator[str]:
    """The lines of the summary; `written` is false where the files were left as they are."""
    told = [line for outcome in outcomes for line in _told(outcome, width)]
    yield from told
    if told:
        yield ""
    yield _closing(outcomes, written)
    reasons = {loop.reason for one in outcomes for loop in one.loops if loop.status == "refused" and loop.reason}
    if reasons:
        which = reasons.pop() if len(reasons) == 1 else "REASON"
        yield click.style(f"`amp-migrate explain {which}` tells why, and what to do by hand.", dim=True)


def _told(outcome: FileOutcome, width: int) -> Iterator[str]:
    if outcome.error is not None:
        where, message = _placed(outcome.path, outcome.error)
        yield from _entry("failed", where, "", message, width)
        return
    for loop in sorted(outcome.loops, key=lambda one: (one.cell or 0, one.line)):
        where = place(outcome.path, loop.line, cell=loop.cell)
        yield from _entry(loop.status, where, _about(loop), loop.message, width)
    for note in outcome.notes:
        where = place(outcome.path, note.line, note.column, note.cell)
        yield from _entry("note", where, "", note.message, width)


def _placed(path: str, error: str) -> tuple[str, str]:
    """Split `path:line:column: message`."""
    found = re.match(r"((?::cell \d+)?(?::\d+)*):? ", error.removeprefix(path))
    if not error.startswith(path) or not found:
        return path, error
    return path + found[1], error[len(path) + found.end() :]


def _about(loop: LoopOutcome) -> str:
    return f" in {loop.scope}" + (f": {loop.reason}" if loop.reason else "")


def _entry(status: str, where: str, about: str, message: str | None, width: int) -> Iterator[str]:
    yield click.style(f"{status:<10}", fg=_COLOURS[status], bold=True) + click.style(where, bold=True) + about
    if message:
        import textwrap

        yield from textwrap.wrap(message, max(width, 60), initial_indent=_INDENT, subsequent_indent=_INDENT)


def _closing(outcomes: Sequence[FileOutcome], written: bool) -> str:
    if not outcomes:
        return "No Python files found."
    files, loops = _counts([one for one in outcomes if one.status != "failed"]).values()
    failed = sum(one.status == "failed" for one in outcomes)
    parts = []
    if loops["migrated"]:
        verb = "Migrated" if written else "Would migrate"
        parts.append(f"{verb} {_many(loops['migrated'], 'loop')} in {_many(files['migrated'], 'file')}")
    if loops["refused"]:
        parts.append(f"refused {_many(loops['refused'], 'loop')}")
    if loops["skipped"]:
        parts.append(f"skipped {_many(loops['skipped'], 'loop')}")
    if failed:
        parts.append(f"{_many(failed, 'file')} failed")
    return _sentence(parts or ["no plain training loop found"]) + f" ({_many(len(outcomes), 'file')} looked at)."


def _sentence(parts: Sequence[str]) -> str:
    joined = ", ".join(parts)
    return joined[0].upper() + joined[1:]


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def changes(path: str, before: bytes, after: bytes, encoding: str) -> Iterator[str]:
    """What a file's new bytes change, as a unified diff; of a notebook, that of each cell, which is for reading alone."""
    if not is_notebook(path):
        yield from diff(path, before.decode(encoding), after.decode(encoding))
        return
    from amp_migrate.source import notebook

    for old, new in zip(notebook.decode(before).cells, notebook.decode(after).cells, strict=True):
        ends = ["" if cell.source.endswith("\n") else "\n" for cell in (old, new)]
        yield from diff(f"{path}:cell {old.number}", old.source + ends[0], new.source + ends[1])


def diff(path: str, before: str, after: str) -> Iterator[str]:
    """A unified diff, line by line with the file's own line ends, that `patch -p0` takes."""
    from difflib import unified_diff

    for line in unified_diff(_lines(before), _lines(after), path, path):
        yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    # Not `splitlines`: form feeds and the like end no line for diff and patch.
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def coloured(lines: Iterable[str]) -> Iterator[str]:
    """A diff as a terminal shows it."""
    for line in lines:
        if line.startswith(("+++ ", "--- ")):
            yield click.style(line, bold=True)
        elif line.startswith("@@"):
            yield click.style(line, fg="cyan")
        else:
            yield click.style(line, fg={"+": "green", "-": "red"}.get(line[0]))
