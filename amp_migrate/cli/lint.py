"""`amp-migrate lint PATH...`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from amp_migrate import config
from amp_migrate.cli import options
from amp_migrate.cli.grouped import Function, Group, Grouped
from amp_migrate.cli.options import STDIN
from amp_migrate.config import Settings
from amp_migrate.display import escaped, in_colour, place
from amp_migrate.pipeline.lint import baseline as baselines
from amp_migrate.pipeline.lint import files
from amp_migrate.pipeline.lint.batch import Batch, lint_all
from amp_migrate.pipeline.lint.files import Options
from amp_migrate.pipeline.lint.results import Report
from amp_migrate.project.discovery import discover
from amp_migrate.project.errors import SourceError
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


def _words(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    """Names of rules, separated by commas or given several times."""
    return tuple(
        name.strip()
        for value in values
        for name in value.split(",")
        if name.strip()
    )


# The formats for people.
_READABLE = ("text", "concise")

_FIXES = Group("Fixes")
_RULES = Group("Which rules")
_REPORT = Group("Report")
_KNOWN = Group("Findings that are known")


def _rules(flag: str, said: str) -> Callable[[Function], Function]:
    return _RULES(
        flag,
        metavar="RULE[,RULE...]",
        multiple=True,
        callback=_words,
        help=said,
    )


def _file(flag: str, said: str, group: Group) -> Callable[[Function], Function]:
    return group(
        flag,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help=said,
    )


@click.command(cls=Grouped)
@click.argument(
    "paths",
    metavar="PATH...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    callback=options.checked_paths,
)
@_FIXES("--fix", is_flag=True, help="Apply safe fixes: those marked [*].")
@_FIXES(
    "--unsafe-fixes",
    is_flag=True,
    help="Apply unsafe fixes as well: look at what they change.",
)
@_FIXES(
    "--diff",
    is_flag=True,
    help="Show what fixes would change, as a patch; write nothing.",
)
@_rules("--select", "Only these rules; ALL for every one. Repeatable.")
@_rules("--extend-select", "These rules as well.")
@_rules("--ignore", "Not these rules.")
@_RULES(
    "--target-torch",
    type=options.Setting("X.Y", config.torch_version),
    help="Oldest PyTorch of the project; else its own requirements tell.",
)
@_REPORT(
    "--output-format",
    type=click.Choice(list(formats.FORMATS)),
    default="text",
    show_default=True,
)
@_file("--output-file", "Write the findings there.", _REPORT)
@_REPORT(
    "--statistics",
    is_flag=True,
    help="Count findings by rule instead of listing them.",
)
@_REPORT("--quiet", "-q", is_flag=True, help="Print findings only.")
@_REPORT("--exit-zero", is_flag=True, help="Exit 0 even with findings.")
@_file("--write-baseline", "Keep today's findings there.", _KNOWN)
@_file("--baseline", "Leave out the findings that are kept there.", _KNOWN)
@_KNOWN(
    "--add-ignore",
    is_flag=True,
    help="Write an ignore comment beside each finding.",
)
@options.since
@options.exclude
@options.stdin_filename
def lint(
    paths: tuple[Path, ...],
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    output_format: str,
    output_file: Path | None,
    baseline: Path | None,
    write_baseline: Path | None,
    add_ignore: bool,
    statistics: bool,
    exit_zero: bool,
    quiet: bool,
    stdin_filename: str | None,
    since: str | None,
    exclude: tuple[str, ...],
    **flags: Any,
) -> int:
    """Find mistakes in code that uses mixed precision, and loops that could use it.

    PATH is a file, a folder, or - for standard input. `amp-migrate explain RULE` tells what is
    wrong and what to do.

    Exit code: 0 nothing found, or all of it fixed; 1 findings, or fixes that --diff shows; 2 wrong
    usage or an internal error; 130 interrupted.
    """
    fixes = fix or unsafe_fixes or diff
    if add_ignore and (fixes or paths == (STDIN,)):
        raise click.UsageError(
            "--add-ignore goes neither with fixes nor with standard input"
        )
    if since is not None and write_baseline is not None:
        raise click.UsageError(
            "--write-baseline keeps the findings of all files; leave out --since"
        )
    ours = options.load_config(options.named(paths, stdin_filename), flags)
    changed = options.changed(paths, since)
    _check_names(ours.settings)
    known = _known(baseline)
    choice = Options(ours.settings, ours.folder, fixes, unsafe_fixes)
    stream = paths == (STDIN,)
    output = Output(
        output_format,
        output_file,
        statistics,
        quiet,
        to_stderr=diff or (stream and fixes),
    )
    if stream:
        batch = Batch(
            (_stream(stdin_filename, choice, writes=fixes and not diff),), 1
        )
    else:
        found = options.among(
            changed, discover(paths, options.excludes(ours, exclude))
        )
        batch = lint_all(found, choice, write=fixes and not diff)
    reports = batch.reports
    if baseline is not None:
        reports = baselines.without_known(reports, known, baseline)
    if batch.interrupted:
        return _interrupted(
            replace(batch, reports=reports), output, unsafe_fixes
        )
    if write_baseline is not None:
        _write_baseline(write_baseline, reports)
        return _crashes(reports)
    if add_ignore:
        return _add_ignores(reports)
    if diff:
        _print_diffs(reports)
    _print(reports, output, unsafe_fixes)
    return _crashes(reports) or _exit_code(reports, exit_zero, diff)


def _interrupted(batch: Batch, output: Output, unsafe: bool) -> int:
    """Tell a person what was found so far. A program gets no report: nothing in it would say that
    it is not the whole.
    """
    readable = output.format in _READABLE and output.file is None
    if readable:
        _print(batch.reports, output, unsafe)
    looked = f"{len(batch.reports):,} of {batch.total:,} files were looked at"
    left = (
        ""
        if readable
        else "; no report is written, since it would be incomplete"
    )
    click.echo(f"amp-migrate: interrupted; {looked}{left}.", err=True)
    return 130


def _check_names(settings: Settings) -> None:
    """Raise UsageError for a name that is no rule."""
    names = [*settings.select, *settings.extend_select, *settings.ignore]
    names += [
        name for _, ignored in settings.per_file_ignores for name in ignored
    ]
    if not names:
        return
    from amp_migrate.pipeline.lint.selection import unknown

    for name in unknown(names):
        from amp_migrate.report import pages

        close = pages.suggestions(name)
        meant = (
            f"did you mean {' or '.join(close)}?"
            if close
            else "`amp-migrate explain` lists them"
        )
        raise click.UsageError(f"there is no rule {name!r}; {meant}")


def _known(baseline: Path | None) -> Counter[baselines.Key]:
    try:
        return baselines.read(baseline) if baseline is not None else Counter()
    except baselines.BaselineError as error:
        raise click.UsageError(str(error)) from None


def _write_baseline(file: Path, reports: Sequence[Report]) -> None:
    try:
        baselines.write(file, reports)
    except baselines.BaselineError as error:
        raise click.UsageError(str(error)) from None
    click.echo(
        (
            f"{len(formats.every(reports)):,} findings are in {file}; pass --baseline {file} from "
            "now on."
        ),
        err=True,
    )


def _stream(name: str | None, choice: Options, writes: bool) -> Report:
    data = sys.stdin.buffer.read()
    shown = name or "-"
    report = (
        files.lint_bytes(shown, data, choice)
        if files.concerns(data, shown)
        else Report(shown)
    )
    if writes:
        sys.stdout.buffer.write(
            report.after if report.after != report.before else data
        )
        sys.stdout.buffer.flush()
    return report


def _add_ignores(reports: Sequence[Report]) -> int:
    from amp_migrate.pipeline.lint.add_ignore import ignore_in

    count = 0
    for report in reports:
        if report.findings:
            try:
                count += ignore_in(Path(report.path), report.findings)
            except SourceError as error:
                click.echo(error.at(report.path), err=True)
    click.echo(f"Added ignore comments for {count:,} findings.", err=True)
    return _crashes(reports)


def _print_diffs(reports: Sequence[Report]) -> None:
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


def _print(reports: Sequence[Report], output: Output, unsafe: bool) -> None:
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
    readable = output.format in _READABLE and output.file is None
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


def _crashes(reports: Sequence[Report]) -> int:
    """Tell what was left out, and which rules failed where; 2 if any did."""
    for note in (note for report in reports for note in report.notes):
        click.echo(escaped(note), err=True)
    crashes = [crash for report in reports for crash in report.crashes]
    for crash in crashes:
        told = (
            f"{crash.path}: {crash.rule} failed on this file; please report "
            f"it with:\n{crash.trace}"
        )
        click.echo(told, err=True, nl=False)
    return 2 if crashes else 0


def _exit_code(reports: Sequence[Report], exit_zero: bool, diff: bool) -> int:
    if exit_zero:
        return 0
    would_change = diff and any(
        report.after != report.before for report in reports
    )
    return (
        1 if would_change or any(report.findings for report in reports) else 0
    )
