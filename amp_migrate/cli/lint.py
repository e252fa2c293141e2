"""`amp-migrate lint PATH...`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from amp_migrate import config
from amp_migrate.cli import options
from amp_migrate.cli.findings_output import (
    READABLE,
    Output,
    print_diffs,
    print_report,
)
from amp_migrate.cli.grouped import Function, Group, Grouped
from amp_migrate.cli.options import STDIN
from amp_migrate.config import Settings
from amp_migrate.display import escaped
from amp_migrate.pipeline.lint import baseline as baselines
from amp_migrate.pipeline.lint import files
from amp_migrate.pipeline.lint.batch import Batch, lint_all
from amp_migrate.pipeline.lint.files import Options
from amp_migrate.pipeline.lint.results import Report
from amp_migrate.project.discovery import discover
from amp_migrate.project.errors import SourceError
from amp_migrate.records import NamedTuple
from amp_migrate.report import findings as formats


class Wanted(NamedTuple):
    """What is done with the findings, as the command line says."""

    fix: bool
    unsafe_fixes: bool
    diff: bool
    output_format: str
    output_file: Path | None
    baseline: Path | None
    write_baseline: Path | None
    add_ignore: bool
    statistics: bool
    exit_zero: bool
    quiet: bool

    @property
    def fixes(self) -> bool:
        """Whether fixes are made, if only to be shown."""
        return self.fix or self.unsafe_fixes or self.diff

    @property
    def writes(self) -> bool:
        """Whether the files are changed."""
        return self.fixes and not self.diff

    def output(self, *, is_stream: bool) -> Output:
        """What is printed; `is_stream`: the program comes from standard input."""
        return Output(
            self.output_format,
            self.output_file,
            self.statistics,
            self.quiet,
            to_stderr=self.diff or (is_stream and self.fixes),
        )


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
    wanted = options.taken(Wanted, flags)
    _check_usage(wanted, paths, since)
    ours = options.load_config(options.named(paths, stdin_filename), flags)
    changed = options.changed(paths, since)
    _check_names(ours.settings)
    known = _known(wanted.baseline)
    choice = Options(
        ours.settings, ours.folder, wanted.fixes, wanted.unsafe_fixes
    )
    if paths == (STDIN,):
        batch = Batch((_stream(stdin_filename, choice, wanted.writes),), 1)
    else:
        every = discover(paths, options.excludes(ours, exclude))
        found = options.among(changed, every)
        batch = lint_all(found, choice, write=wanted.writes)
    if wanted.baseline is not None:
        new = baselines.without_known(batch.reports, known, wanted.baseline)
        batch = batch._replace(reports=new)
    return _told(batch, wanted, wanted.output(is_stream=paths == (STDIN,)))


def _check_usage(
    wanted: Wanted, paths: tuple[Path, ...], since: str | None
) -> None:
    """Raise UsageError for options that do not go together."""
    if wanted.add_ignore and (wanted.fixes or paths == (STDIN,)):
        raise click.UsageError(
            "--add-ignore goes neither with fixes nor with standard input"
        )
    if since is not None and wanted.write_baseline is not None:
        raise click.UsageError(
            "--write-baseline keeps the findings of all files; leave out --since"
        )


def _told(batch: Batch, wanted: Wanted, output: Output) -> int:
    """Report what was found, or keep it; the exit code."""
    reports = batch.reports
    if batch.interrupted:
        return _interrupted(batch, output, wanted.unsafe_fixes)
    if wanted.write_baseline is not None:
        _write_baseline(wanted.write_baseline, reports)
        return _crashes(reports)
    if wanted.add_ignore:
        return _add_ignores(reports)
    if wanted.diff:
        print_diffs(reports)
    print_report(reports, output, wanted.unsafe_fixes)
    return _crashes(reports) or _exit_code(
        reports, wanted.exit_zero, wanted.diff
    )


def _interrupted(batch: Batch, output: Output, unsafe: bool) -> int:
    """Tell a person what was found so far. A program gets no report: nothing in it would say that
    it is not the whole.
    """
    readable = output.format in READABLE and output.file is None
    if readable:
        print_report(batch.reports, output, unsafe)
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
