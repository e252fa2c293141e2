"""`amp-migrate [migrate] PATH...`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from amp_migrate.cli import options
from amp_migrate.cli.batch import Batch, rewrite_all
from amp_migrate.cli.options import STDIN
from amp_migrate.config import DTYPES, Settings
from amp_migrate.report import migration as report
from amp_migrate.source import rewrite, unfinished
from amp_migrate.source.discovery import discover
from amp_migrate.source.rewrite import Rewritten


@click.command()
@click.argument(
    "paths",
    metavar="PATH...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    callback=options.checked_paths,
)
@click.option("--diff", is_flag=True, help="Show what would change; write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file would change.")
@click.option("--dtype", type=click.Choice(DTYPES), help="Precision inside autocast.  [default: float16]")
@click.option("--device", metavar="TYPE", help="Accelerator for programs without device code, as in --device cuda.")
@click.option("--eval", is_flag=True, help="Run evaluation loops under autocast as well.")
@click.option("--guard-scheduler", is_flag=True, help="Step schedulers only where the optimizer has stepped.")
@click.option("--target-torch", type=options.TorchVersion(), help="Oldest torch that the result must run on.")
@click.option("--unsafe", is_flag=True, help="Also make changes that may alter results with AMP off.")
@click.option("--strict", is_flag=True, help="Exit 1 if a loop is refused.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@options.since
@click.option("--exclude", metavar="PATTERN", multiple=True, help="Leave out paths, as .gitignore does. Repeatable.")
def migrate(
    paths: tuple[Path, ...],
    diff: bool,
    check: bool,
    output_format: str,
    since: str | None,
    exclude: tuple[str, ...],
    **flags: Any,
) -> int:
    """Rewrite plain training loops to mixed precision, in place.

    PATH is a file, a folder, or - for standard input, which is rewritten to standard output. What cannot be rewritten
    safely is left alone and reported with the reason.

    Exit code: 0 done, or nothing to do; 1 a file failed, would change (--check) or holds a refused loop (--strict);
    2 wrong usage or an internal error.
    """
    as_json = output_format == "json"
    if diff and as_json:
        raise click.UsageError("--diff prints text; choose it or --output-format json")
    if paths == (STDIN,) and as_json and not check:
        raise click.UsageError("the new program goes to standard output; add --check to get the report as json")
    ours = options.load_config(paths, flags)
    changed = options.changed(paths, since)
    if paths == (STDIN,):
        batch = Batch((_stream(ours.settings, quiet=diff or check),), 1)
    else:
        files = list(discover(paths, options.excludes(ours, exclude)))
        for line in unfinished.finish((Path(found.real).parent for found in files), write=not (diff or check)):
            click.echo(f"amp-migrate: {line}", err=True)
        batch = rewrite_all(files, ours.settings, write=not (diff or check), asked=changed, keep=diff)
    if diff:
        _print_diffs(batch.results)
    _report(batch, as_json, written=not (diff or check), to_stderr=diff or (paths == (STDIN,) and not check))
    return _exit_code(batch, ours.settings, check)


def _stream(settings: Settings, quiet: bool) -> Rewritten:
    data = sys.stdin.buffer.read()
    result = rewrite.sift_bytes("-", data)
    if not isinstance(result, Rewritten):
        result = rewrite.rewrite_bytes("-", data, settings)
    if not quiet and result.outcome.status != "failed":
        sys.stdout.buffer.write(result.after if result.outcome.status == "migrated" else data)
    return result


def _print_diffs(results: Sequence[Rewritten]) -> None:
    out = sys.stdout.buffer
    colour = sys.stdout.isatty()
    for result in results:
        if result.outcome.status == "migrated":
            for line in _diff(result, colour):
                # In the file's own encoding, so that the patch applies; a terminal takes its own.
                out.write(line.encode("utf-8" if colour else result.encoding, "backslashreplace"))
    out.flush()


def _diff(result: Rewritten, colour: bool) -> Iterator[str]:
    lines = report.changes(result.outcome.path, result.before, result.after, result.encoding)
    return report.coloured(lines) if colour else lines


def _report(batch: Batch, as_json: bool, written: bool, to_stderr: bool) -> None:
    outcomes = [result.outcome for result in batch.results]
    if as_json:
        click.echo(report.as_json(outcomes))
    else:
        for line in report.summary(outcomes, written, _width()):
            click.echo(line, err=to_stderr)
    for result in batch.results:
        if result.internal:
            click.echo(f"\n{result.outcome.path}:\n{result.internal}", err=True, nl=False)
    if batch.interrupted:
        done = f"{len(batch.results):,} of {batch.total:,} files were done, the others are as they were"
        click.echo(f"amp-migrate: interrupted; {done}.", err=True)


def _width() -> int:
    # Not from shutil, whose import takes longer than the rest of a small run.
    try:
        return min(os.get_terminal_size(sys.stdout.fileno()).columns, 120)
    except OSError:
        return 100


def _exit_code(batch: Batch, settings: Settings, check: bool) -> int:
    statuses = {result.outcome.status for result in batch.results}
    loops = {loop.status for result in batch.results for loop in result.outcome.loops}
    if batch.interrupted:
        return 130
    if any(result.internal for result in batch.results):
        return 2
    if "failed" in statuses or (check and "migrated" in statuses) or (settings.strict and "refused" in loops):
        return 1
    return 0
