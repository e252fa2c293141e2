"""What became of a migration, for people: what changed, what was left alone and the way out."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import click

from amp_migrate.display import escaped, place
from amp_migrate.outcome import Change, FileOutcome
from amp_migrate.report.groups import Group, left_alone, place_of, way_out
from amp_migrate.report.migration import counts

_COLOURS = {
    "migrated": "green",
    "changed": "green",
    "planned": "green",
    "refused": "yellow",
    "skipped": "cyan",
    "failed": "red",
    "done": "green",
    "note": "blue",
    "to do": "magenta",
}
_INDENT = " " * 10
_TRY = "`amp-migrate verify SCRIPT` runs a script with and without AMP: what no reading can tell."


def summary(
    outcomes: Sequence[FileOutcome],
    written: bool,
    width: int,
    of: int | None = None,
    verified: bool = False,
) -> Iterator[str]:
    """The lines of the summary.

    Args:
        outcomes: what became of each file.
        written: false where the files were left as they are.
        width: of the terminal.
        of: how many files there are, where the run was interrupted before it came to all.
        verified: whether a run of `verify` has just told what it would.
    """
    groups = [
        *left_alone(outcomes, "refused"),
        *left_alone(outcomes, "skipped"),
    ]
    told = [
        line for outcome in outcomes for line in _file(outcome, written, width)
    ]
    told += _groups(groups, width)
    yield from told
    if told:
        yield ""
    if of is not None:
        yield click.style(
            f"INCOMPLETE: interrupted after {len(outcomes):,} of {of:,} files.",
            bold=True,
        )
    yield _closing(outcomes, written)
    for line in _what_next(outcomes, groups, verified):
        yield click.style(line, dim=True)


def _what_next(
    outcomes: Sequence[FileOutcome], groups: Sequence[Group], verified: bool
) -> Iterator[str]:
    """The commands that help from here."""
    loops = [loop for outcome in outcomes for loop in outcome.loops]
    if not verified and any(loop.status == "migrated" for loop in loops):
        yield _TRY
    refused = {group.reason for group in groups if group.status == "refused"}
    reasons = refused - {""}
    if reasons:
        which = reasons.pop() if len(reasons) == 1 else "REASON"
        yield f"`amp-migrate explain {which}` tells why, and what to do by hand."


def _file(outcome: FileOutcome, written: bool, width: int) -> Iterator[str]:
    """What was done in one file, and what is left to do there."""
    if outcome.error is not None:
        yield from _entry(
            "failed", *_placed(outcome.path, outcome.error), width
        )
        return
    migrated = [loop for loop in outcome.loops if loop.status == "migrated"]
    for loop in sorted(migrated, key=lambda one: (one.cell or 0, one.line)):
        yield from _entry(
            "migrated" if written else "planned",
            place_of(outcome.path, loop),
            loop.message,
            width,
        )
    if outcome.changes:
        if not migrated:
            yield _heading("changed" if written else "planned", outcome.path)
        yield from _wrapped(_changes(outcome.changes), width)
    for note in outcome.notes:
        where = place(outcome.path, note.line, note.column, note.cell)
        yield from _entry(note.kind, where, note.message, width)


def _changes(changes: Sequence[Change]) -> str:
    """Each kind of change once, with all its lines."""
    lines: dict[str, list[str]] = {}
    for one in changes:
        number = str(one.line) if one.cell is None else f"{one.cell}:{one.line}"
        lines.setdefault(one.message, []).append(number)
    said = [
        f"{', '.join(numbers)} {message}" for message, numbers in lines.items()
    ]
    word = (
        "cell:line" if any(one.cell is not None for one in changes) else "line"
    )
    return f"{word} " + "; ".join(said)


def _placed(path: str, error: str) -> tuple[str, str]:
    """Split `path:line:column: message`."""
    found = re.match(r"((?::cell \d+)?(?::\d+)*):? ", error.removeprefix(path))
    if not error.startswith(path) or not found:
        return path, error
    return path + found[1], error[len(path) + found.end() :]


def _groups(groups: Sequence[Group], width: int) -> Iterator[str]:
    ways = way_out(groups)
    for number, group in enumerate(groups):
        yield from _group(group, width)
        last = all(
            other.reason != group.reason for other in groups[number + 1 :]
        )
        if last and group.reason in ways:
            yield from _wrapped(f"Way out: {ways[group.reason]}", width)


def _group(group: Group, width: int) -> Iterator[str]:
    reason = f": {group.reason}" if group.reason else ""
    if len(group.loops) == 1:
        [(path, loop)] = group.loops
        yield from _entry(
            group.status, place_of(path, loop), loop.message, width, reason
        )
        return
    yield from _entry(
        group.status,
        f"{len(group.loops):,} loops",
        group.message,
        width,
        reason,
    )
    yield from _wrapped(", ".join(group.places), width)


def _entry(
    status: str, where: str, message: str | None, width: int, about: str = ""
) -> Iterator[str]:
    yield _heading(status, where) + about
    if message:
        yield from _wrapped(message, width)


def _heading(status: str, where: str) -> str:
    return click.style(
        f"{status:<10}", fg=_COLOURS[status], bold=True
    ) + click.style(where, bold=True)


def _wrapped(text: str, width: int) -> Iterable[str]:
    return textwrap.wrap(
        escaped(text),
        max(width, 60),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _closing(outcomes: Sequence[FileOutcome], written: bool) -> str:
    if not outcomes:
        return "No Python files found."
    files, loops = counts(
        one for one in outcomes if one.status != "failed"
    ).values()
    failed = sum(one.status == "failed" for one in outcomes)
    parts = []
    if files["migrated"]:
        parts.append(_done(loops["migrated"], files["migrated"], written))
    if loops["refused"]:
        parts.append(f"refused {_many(loops['refused'], 'loop')}")
    if loops["skipped"]:
        parts.append(f"skipped {_many(loops['skipped'], 'loop')}")
    if failed:
        parts.append(f"{_many(failed, 'file')} failed")
    return (
        _sentence(parts or ["no plain training loop found"])
        + f" ({_many(len(outcomes), 'file')} looked at)."
    )


def _done(loops: int, files: int, written: bool) -> str:
    if loops:
        verb = "Migrated" if written else "Would migrate"
        return f"{verb} {_many(loops, 'loop')} in {_many(files, 'file')}"
    verb = "Changed" if written else "Would change"
    return f"{verb} {_many(files, 'file')}"


def _sentence(parts: Sequence[str]) -> str:
    joined = ", ".join(parts)
    return joined[0].upper() + joined[1:]


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
