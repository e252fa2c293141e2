"""What became of a migration, as a Markdown document for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amp_migrate.display import escaped, place
from amp_migrate.outcome import Change, FileOutcome
from amp_migrate.report.groups import Group, left_alone, place_of, way_out
from amp_migrate.report.migration import counts

_INTRO = """\
Training loops were rewritten to automatic mixed precision by `amp-migrate`. Inside `autocast`,
each operation runs in half precision where that is safe, else in float32. A `GradScaler` multiplies
the loss before `backward`, so that small gradients do not become zero in float16, divides the
gradients again before anything reads them, and skips a step whose gradients overflowed."""

_OFF = """\
With mixed precision off (no GPU, or the switch off) the program computes bit for bit what it
computed before."""

_CHECK = """\
1. `git diff` shows nothing that is not listed below.
2. On the commit before this change: `amp-migrate verify SCRIPT`, for each training script, compares
   the original with its rewrite: losses, gradients, skipped steps and, on a GPU, speed.
3. Train for some hundred steps. The loss should follow the old one closely; a few skipped steps at
   the start are normal, while the scaler finds its scale."""


def document(
    outcomes: Sequence[FileOutcome], written: bool, of: int | None = None
) -> str:
    """The document; `of`: how many files there are, where the run did not come to all of them."""
    return "\n".join([*_lines(outcomes, written, of), ""])


def _lines(
    outcomes: Sequence[FileOutcome], written: bool, of: int | None
) -> Iterator[str]:
    changed = [one for one in outcomes if one.status == "migrated"]
    loops = counts(outcomes)["loops"]
    yield "# Mixed precision"
    yield ""
    if of is not None:
        yield f"**Incomplete:** the run was interrupted after {len(outcomes):,} of {of:,} files."
        yield ""
    verb = "were changed" if written else "would be changed"
    yield (
        f"{len(changed):,} of {len(outcomes):,} files {verb}. Loops: {loops['migrated']:,} "
        f"migrated, {loops['refused']:,} refused, {loops['skipped']:,} skipped."
    )
    yield from ("", _INTRO, "", _OFF, "", "## How to check", "", _CHECK)
    if changed:
        yield from ("", "## What changed")
    for outcome in changed:
        yield from _changed(outcome)
    yield from _left(outcomes, "refused", "## What was refused")
    yield from _left(outcomes, "skipped", "## What was skipped")
    failed = [one for one in outcomes if one.error is not None]
    if failed:
        yield from ("", "## What failed", "")
        yield from (f"- {_text(one.error or '')}" for one in failed)


def _changed(outcome: FileOutcome) -> Iterator[str]:
    yield from ("", f"### {_code(outcome.path)}", "")
    for loop in outcome.loops:
        if loop.status == "migrated":
            said = f": {_text(loop.message)}" if loop.message else ""
            yield f"- loop at line {_at(loop.line, loop.cell)}, in {_code(loop.scope)}{said}"
    for note in outcome.notes:
        word = "**to do**" if note.kind == "to do" else note.kind
        yield f"- {word}, line {_at(note.line, note.cell)}: {_text(note.message)}"
    listed = outcome.notes or any(
        loop.status == "migrated" for loop in outcome.loops
    )
    yield from (
        *([""] if listed else []),
        "| Line | What | Why |",
        "|---|---|---|",
    )
    for (message, why), found in _grouped(outcome.changes).items():
        lines = ", ".join(_at(one.line, one.cell) for one in found)
        yield f"| {lines} | {_cell(message)} | {_cell(why)} |"


def _grouped(changes: Sequence[Change]) -> dict[tuple[str, str], list[Change]]:
    groups: dict[tuple[str, str], list[Change]] = {}
    for one in changes:
        groups.setdefault((one.message, one.why), []).append(one)
    return groups


def _left(
    outcomes: Sequence[FileOutcome], status: str, heading: str
) -> Iterator[str]:
    groups = left_alone(outcomes, status)
    if not groups:
        return
    ways = way_out(groups)
    yield from ("", heading)
    for group in groups:
        yield from _group(group, ways.get(group.reason))


def _group(group: Group, way: str | None) -> Iterator[str]:
    yield from ("", f"### {_code(group.reason)}", "")
    if group.message:
        yield from (_text(group.message), "")
    yield from (
        f"- {_code(place_of(path, loop))}" for path, loop in group.loops
    )
    if way:
        yield from ("", f"Way out: {way}")


def _at(line: int, cell: int | None) -> str:
    return place("", line, cell=cell).removeprefix(":")


def _code(text: str) -> str:
    """A code span, whatever backticks it holds."""
    safe = escaped(text)
    return f"`` {safe} ``" if "`" in safe else f"`{safe}`"


def _text(text: str) -> str:
    """Prose that may hold code spans; no HTML."""
    return escaped(text).replace("&", "&amp;").replace("<", "&lt;")


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")
