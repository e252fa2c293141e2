"""Where the findings of lint are printed, and what stands under them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from amp_migrate.display import escaped, in_colour, place
from amp_migrate.pipeline.lint.results import Report
from amp_migrate.records import NamedTuple
from amp_migrate.report import findings as formats
from amp_migrate.report import text


class Output(NamedTuple):
    """What is printed, and where."""

    format: str
    file: Path | None
    statistics: bool
    quiet: bool
    to_stderr: bool
    """Where standard output holds the fixed program."""

    @property
    def colour(self) -> bool:
        """Whether a person reads it on a terminal."""
        stream = sys.stderr if self.to_stderr else sys.stdout
        return self.file is None and in_colour(stream)


# The formats for people.
READABLE = ("text", "concise")


def print_diffs(reports: Sequence[Report]) -> None:
    """What the fixes change, as a patch on standard output."""
    from amp_migrate.report import diffs

    colour = in_colour(sys.stdout)
    for report in reports:
        if report.after != report.before:
            lines = diffs.changes(
                report.path, report.before, report.after, report.encoding
            )
            for line in diffs.coloured(lines) if colour else lines:
                sys.stdout.buffer.write(
                    line.encode(
                        "utf-8" if colour else report.encoding,
                        "backslashreplace",
                    )
                )
    sys.stdout.buffer.flush()


def print_report(
    reports: Sequence[Report], output: Output, unsafe: bool
) -> None:
    """The findings where `output` says, and a closing line."""
    said = (
        _statistics(reports, output)
        if output.statistics
        else formats.FORMATS[output.format](reports, output.colour)
    )
    if output.file is not None:
        _write(output.file, said)
    else:
        click.echo(said, nl=False, err=output.to_stderr)
    if output.quiet:
        return
    readable = output.format in READABLE and output.file is None
    for line in _closing(reports, unsafe):
        click.echo(line, err=output.to_stderr or not readable)


def _closing(reports: Sequence[Report], unsafe: bool) -> Iterator[str]:
    for report in reports:
        for left in report.left:
            where = place(
                report.path, left.finding.line, cell=left.finding.cell
            )
            yield escaped(
                f"{where}: the fix of {left.finding.rule} was not made: {left.why}"
            )
    yield text.closing(reports, unsafe)


def _statistics(reports: Sequence[Report], output: Output) -> str:
    return "".join(
        line + "\n"
        for line in text.statistics(formats.every(reports), output.colour)
    )


def _write(file: Path, said: str) -> None:
    try:
        file.write_text(said, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(
            f"{file}: cannot be written: {error.strerror}"
        ) from None
