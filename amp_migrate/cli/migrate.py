"""`amp-migrate [migrate] PATH...`."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from amp_migrate import config
from amp_migrate.cli import options
from amp_migrate.cli.grouped import Group, Grouped
from amp_migrate.cli.options import STDIN
from amp_migrate.cli.verify import verify
from amp_migrate.config import Settings
from amp_migrate.display import in_colour
from amp_migrate.pipeline import journal as unfinished
from amp_migrate.pipeline import one_file as rewrite
from amp_migrate.pipeline.batch import Batch, rewrite_all
from amp_migrate.pipeline.one_file import Rewritten
from amp_migrate.project.discovery import Found, discover
from amp_migrate.records import NamedTuple
from amp_migrate.report import diffs, migration
from amp_migrate.report.summary import summary

_RESULT = Group("What is done with the result")
_PRECISION = Group("Precision")
_MORE = Group("What else is changed")
_REPORT = Group("Report")


class Wanted(NamedTuple):
    """What is done with the result, as the command line says."""

    diff: bool
    check: bool
    command: str | None
    output_format: str
    document: Path | None

    @property
    def writes(self) -> bool:
        """Whether files are to be changed."""
        return not (self.diff or self.check)

    @property
    def as_json(self) -> bool:
        """Whether a program reads the report."""
        return self.output_format == "json"


@click.command(cls=Grouped)
@click.argument(
    "paths",
    metavar="PATH...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    callback=options.checked_paths,
)
@_RESULT(
    "--diff",
    is_flag=True,
    help="Show what would change, as a patch; write nothing.",
)
@_RESULT(
    "--check",
    is_flag=True,
    help="Write nothing; exit 1 if a file would change.",
)
@_RESULT("--strict", is_flag=True, help="Exit 1 if a loop is refused.")
@_RESULT(
    "--verify",
    "command",
    metavar="COMMAND",
    help='Write only what passes verify: "train.py --epochs 1", options of verify in front of it.',
)
@_RESULT(
    "--leave",
    multiple=True,
    type=options.Setting("FILE:SCOPE", config.loop_name),
    metavar="FILE:SCOPE",
    help="Leave this loop as it is, as in train.py:main. Repeatable.",
)
@_PRECISION(
    "--dtype",
    type=options.Setting("|".join(config.DTYPES), config.dtype),
    metavar="|".join(config.DTYPES),
    help="Precision inside autocast: float16 (or fp16) runs on every GPU and needs a scaler; "
    "bfloat16 (or bf16) needs none, and an A100 or newer; auto takes bfloat16 where the GPU has "
    "it.  [default: float16]",
)
@_PRECISION(
    "--device",
    type=options.Setting("|".join(config.DEVICES), config.device),
    metavar="|".join(config.DEVICES),
    help="Where programs run that say nothing about devices.",
)
@_PRECISION(
    "--target-torch",
    type=options.Setting("X.Y", config.torch_version),
    help="Oldest PyTorch that the result must run on; else the project's own requirements tell.",
)
@_PRECISION(
    "--switch",
    type=options.Setting("NAME", config.switch),
    metavar="NAME",
    help="Give the program an option of this name that turns AMP on and off while it runs (off, "
    "float16, bfloat16 or auto), in its argparse, click, dataclass or dict configuration; --dtype "
    "is its default.",
)
@_MORE(
    "--eval", is_flag=True, help="Run evaluation loops under autocast as well."
)
@_MORE(
    "--guard-scheduler",
    is_flag=True,
    help="Step learning rate schedulers only where the optimizer has stepped.",
)
@_MORE(
    "--unsafe",
    is_flag=True,
    help="Also make changes that may alter results where mixed precision is off.",
)
@_MORE(
    "--annotate",
    is_flag=True,
    help="Write a comment above what is new: one line that says why.",
)
@_REPORT(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
)
@_REPORT(
    "--report",
    "document",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.md",
    help="Write a document for a pull request: what changed, why, and how to check it.",
)
@options.since
@options.exclude
@options.stdin_filename
def migrate(
    paths: tuple[Path, ...],
    stdin_filename: str | None,
    since: str | None,
    exclude: tuple[str, ...],
    **flags: Any,
) -> int:
    """Rewrite plain training loops to mixed precision, in place.

    PATH is a file, a folder, or - for standard input, which is rewritten to standard output. What
    cannot be rewritten safely is left alone and reported with the reason.

    Exit code: 0 done, or nothing to do; 1 a file failed, would change (--check) or holds a refused
    loop (--strict); 2 wrong usage or an internal error.
    """
    wanted = options.taken(Wanted, flags)
    _check_usage(wanted, is_stream=paths == (STDIN,))
    ours = options.load_config(options.named(paths, stdin_filename), flags)
    asked = options.changed(paths, since)
    if paths == (STDIN,):
        name, quiet = stdin_filename or "-", not wanted.writes
        batch = Batch((_stream(name, ours.settings, quiet=quiet),), 1)
        return _told(
            batch, wanted, ours.settings, wanted.writes, in_stream=True
        )
    files = list(discover(paths, options.excludes(ours, exclude)))
    _finish(files, paths, write=wanted.writes)
    batch = rewrite_all(
        files,
        ours.settings,
        write=wanted.writes and wanted.command is None,
        asked=asked,
        keep=wanted.diff or wanted.command is not None,
    )
    written = wanted.writes
    if wanted.command is not None and not batch.interrupted:
        again = functools.partial(rewrite_all, files, write=False, asked=asked)
        batch, written = _proved(batch, wanted.command, ours.settings, again)
    return _told(batch, wanted, ours.settings, written)


def _check_usage(wanted: Wanted, *, is_stream: bool) -> None:
    """Raise UsageError for options that do not go together."""
    if wanted.diff and wanted.as_json:
        raise click.UsageError(
            "--diff prints text; choose it or --output-format json"
        )
    if is_stream and wanted.as_json and not wanted.check:
        raise click.UsageError(
            "the new program goes to standard output; add --check to get the report as json"
        )
    if wanted.command is not None and (not wanted.writes or is_stream):
        raise click.UsageError(
            "--verify writes files; leave out --diff, --check and -"
        )


def _finish(
    files: Sequence[Found], paths: Sequence[Path], *, write: bool
) -> None:
    """What an earlier run left unfinished."""
    folders = (Path(found.real).parent for found in files)
    roots = [path if path.is_dir() else path.resolve().parent for path in paths]
    for line in unfinished.finish(folders, write=write, roots=roots):
        click.echo(f"amp-migrate: {line}", err=True)


def _told(
    batch: Batch,
    wanted: Wanted,
    settings: Settings,
    written: bool,
    *,
    in_stream: bool = False,
) -> int:
    """Report what became of the files; the exit code. `written`: they are on disk."""
    if wanted.diff:
        _print_diffs(batch.results)
    to_stderr = wanted.diff or (in_stream and not wanted.check)
    _report(batch, wanted, written, to_stderr=to_stderr)
    if wanted.document is not None:
        _write(wanted.document, batch, written)
    is_held_back = wanted.writes and not written
    return max(_exit_code(batch, settings, wanted.check), int(is_held_back))


def _proved(
    batch: Batch,
    command: str,
    settings: Settings,
    again: Callable[[Settings], Batch],
) -> tuple[Batch, bool]:
    """The batch, on disk where it passes verify; whether it is."""
    from amp_migrate.runtime.proved import prove

    if not any(one.outcome.status == "migrated" for one in batch.results):
        return batch, True
    asked = verify.make_context("--verify", shlex.split(command)).params
    passed = prove(batch, asked, settings, again)
    return (batch.written(), True) if passed else (batch, False)


def _stream(name: str, settings: Settings, quiet: bool) -> Rewritten:
    data = sys.stdin.buffer.read()
    result = rewrite.sift_bytes(name, data)
    if not isinstance(result, Rewritten):
        floor = settings.target_torch or settings.admitted_torch
        result = rewrite.rewrite_bytes(
            name, data, settings._replace(target_torch=floor)
        )
    if not quiet and result.outcome.status != "failed":
        sys.stdout.buffer.write(
            result.after if result.outcome.status == "migrated" else data
        )
    return result


def _print_diffs(results: Sequence[Rewritten]) -> None:
    out = sys.stdout.buffer
    colour = in_colour(sys.stdout)
    for result in results:
        if result.outcome.status == "migrated":
            for line in _diff(result, colour):
                # In the file's own encoding, so that the patch applies; a terminal takes its own.
                out.write(
                    line.encode(
                        "utf-8" if colour else result.encoding,
                        "backslashreplace",
                    )
                )
    out.flush()


def _diff(result: Rewritten, colour: bool) -> Iterator[str]:
    lines = diffs.changes(
        result.outcome.path, result.before, result.after, result.encoding
    )
    return diffs.coloured(lines) if colour else lines


def _report(
    batch: Batch, wanted: Wanted, written: bool, to_stderr: bool
) -> None:
    outcomes = [result.outcome for result in batch.results]
    verified = wanted.command is not None
    if wanted.as_json:
        click.echo(migration.as_json(outcomes, complete=not batch.interrupted))
    else:
        for line in summary(outcomes, written, _width(), _of(batch), verified):
            click.echo(line, err=to_stderr)
    for result in batch.results:
        if result.internal:
            click.echo(
                f"\n{result.outcome.path}:\n{result.internal}",
                err=True,
                nl=False,
            )
    if batch.interrupted:
        done = (
            f"{len(batch.results):,} of {batch.total:,} files were done, the others are as "
            "they were"
        )
        click.echo(f"amp-migrate: interrupted; {done}.", err=True)


def _of(batch: Batch) -> int | None:
    """How many files there are, where the run did not come to all."""
    return batch.total if batch.interrupted else None


def _write(file: Path, batch: Batch, written: bool) -> None:
    from amp_migrate.report.document import document

    text = document(
        [result.outcome for result in batch.results], written, _of(batch)
    )
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(
            f"{file}: cannot be written: {error.strerror}"
        ) from None


def _width() -> int:
    # Not from shutil, whose import takes longer than the rest of a small run.
    try:
        return min(os.get_terminal_size(sys.stdout.fileno()).columns, 120)
    except OSError:
        return 100


def _exit_code(batch: Batch, settings: Settings, check: bool) -> int:
    statuses = {result.outcome.status for result in batch.results}
    loops = {
        loop.status for result in batch.results for loop in result.outcome.loops
    }
    if batch.interrupted:
        return 130
    if any(result.internal for result in batch.results):
        return 2
    if (
        "failed" in statuses
        or (check and "migrated" in statuses)
        or (settings.strict and "refused" in loops)
    ):
        return 1
    return 0
