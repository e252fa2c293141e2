"""`amp-migrate verify`: the original program against the rewritten one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from amp_migrate import config
from amp_migrate.cli import options
from amp_migrate.cli.grouped import Function, Group, Grouped
from amp_migrate.display import escaped
from amp_migrate.runtime.needs import require_torch

_RUNS = Group("The runs")
_WHAT = Group("What is compared")
_REPORT = Group("Report")
_LIMITS = Group("Limits of the checks")


def _limit(
    flag: str, said: str, kind: type = float
) -> Callable[[Function], Function]:
    """An option for one of the limits of a verdict."""
    return _LIMITS(flag, type=kind, help=said)


def _writable(
    context: click.Context, option: click.Parameter, file: str | None
) -> str | None:
    """A file that cannot be written is told before the runs, which may take hours."""
    folder = Path(file).absolute().parent if file and file != "-" else None
    if folder and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise click.BadParameter(f"there is no folder {folder} to write to")
    return file


class _Verify(Grouped):
    """Asks wherever the options are read whether they go together."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if ctx.params["metric"] is None:
            for name in ("epochs", "metric_seeds", "metric_margin"):
                if (
                    ctx.get_parameter_source(name)
                    is ParameterSource.COMMANDLINE
                ):
                    raise click.UsageError(
                        f"--{name.replace('_', '-')} is about the number that --metric NAME names"
                    )
        if ctx.params["quick"] and ctx.params["bisect"]:
            raise click.UsageError(
                "--quick looks for nothing; choose it or --bisect"
            )
        return rest


@click.command(
    "verify",
    cls=_Verify,
    short_help="Run a program as it is and rewritten, and compare.",
    context_settings={
        "ignore_unknown_options": False,
        "allow_interspersed_args": False,
    },
)
@_RUNS(
    "-m",
    "as_module",
    is_flag=True,
    help="PROGRAM is the name of a module, as in python -m.",
)
@_RUNS(
    "--steps",
    default=50,
    show_default=True,
    type=click.IntRange(1),
    help="Optimizer steps per run.",
)
@_RUNS(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="Where the runs compute; cuda where there is one. On the CPU, a GPU is simulated: "
    "devices, types, overflow and errors are those of CUDA.",
)
@_RUNS(
    "--program-device",
    metavar="TYPE",
    help="For a program without device code, as migrate --device.",
)
@_RUNS(
    "--nproc",
    default=1,
    type=click.IntRange(1),
    metavar="N",
    help="Run every program under torchrun, N processes.",
)
@_RUNS(
    "--quick",
    is_flag=True,
    help="Three runs alone: the original, rewritten with AMP off, and with AMP on. No gradients "
    "are compared, no drills are made, and the loss may be three times as far off.",
)
@_RUNS("--seed", default=0, show_default=True, type=int, help="Of every run.")
@_RUNS(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="For one run.",
)
@_RUNS("--scratch", is_flag=True, help="Run in copies of the current folder.")
@_WHAT(
    "--dtype",
    default="float16",
    show_default=True,
    type=options.Setting("float16|bfloat16|both", config.verified_dtype),
    metavar="float16|bfloat16|both",
    help="Precision of the run with mixed precision on.",
)
@_WHAT(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Compare with this file instead of the rewritten program.",
)
@_WHAT(
    "--no-drills",
    is_flag=True,
    help="Leave out the two drills: a forced overflow, and saving and loading a checkpoint.",
)
@_WHAT(
    "--bisect",
    is_flag=True,
    help="Where it fails, look for modules that it passes with when they are in float32.",
)
@_WHAT(
    "--metric",
    metavar="NAME",
    help="Also run the whole program over seeds, with and without AMP, and compare this number of "
    "those that it prints, writes to TensorBoard or returns in a dict.",
)
@_WHAT(
    "--epochs",
    type=click.IntRange(1),
    metavar="N",
    help="Of it, the Nth value, not the last.",
)
@_WHAT(
    "--metric-seeds",
    default=3,
    show_default=True,
    type=click.IntRange(2),
    metavar="N",
    help="Over so many.",
)
@_WHAT(
    "--metric-margin",
    type=click.FloatRange(0),
    metavar="SHARE",
    help="How far the means may be apart.  [default: 0.01, or twice its spread over seeds]",
)
@_WHAT(
    "--resume",
    metavar="ARGUMENTS",
    help="Also stop the whole program after a checkpoint, start it again with these arguments "
    "behind its own, and compare with a run that was not stopped; in copies of the current folder.",
)
@_REPORT(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, allow_dash=True, writable=True),
    callback=_writable,
    metavar="FILE",
    help="Write the result as JSON; - is standard output.",
)
@_REPORT(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, writable=True),
    callback=_writable,
    metavar="FILE",
    help="Write a page with plots.",
)
@_REPORT(
    "--patch",
    "patch_file",
    type=click.Path(dir_okay=False, writable=True),
    callback=_writable,
    metavar="FILE",
    help="Write what passed as a patch: the rewritten program, or what --bisect has found.",
)
@_limit(
    "--loss-factor",
    "How far the loss may be off, in the program's own noise.  [default: 3]",
)
@_limit("--loss-floor", "The same as a share of the loss.  [default: 0.05]")
@_limit(
    "--first-loss",
    "Relative difference before the first step.  [default: 0.02]",
)
@_limit(
    "--gradient-factor",
    "Error of the gradients, in that of float32.  [default: 3]",
)
@_limit(
    "--gradient-tolerance", "A tenth of it is allowed on top.  [default: 2]"
)
@_limit(
    "--gradient-scale",
    "How much too long or short the gradient may be.  [default: 0.02]",
)
@_limit(
    "--layer-scale", "The same for one parameter's gradient.  [default: 0.05]"
)
@_limit("--skipped", "Steps that may be skipped.  [default: 16]", int)
@_limit("--min-speedup", "Fail below this ratio to float32.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def verify(program: str, arguments: tuple[str, ...], **options: Any) -> int:
    """Run PROGRAM with its ARGUMENTS as it is, rewritten with AMP off, and rewritten with AMP on,
    and compare.

    Every run is a process of its own, with the same seeds, and stops after --steps optimizer steps.
    Options of verify stand before PROGRAM. No file is written but what PROGRAM itself writes;
    --scratch has it write into copies.

    Exit code 0: all checks passed. 1: one failed, or nothing could be compared. 2: wrong usage.
    """
    require_torch("verify")
    click.echo(f"amp-migrate: reading {escaped(program)}", err=True)
    from amp_migrate.runtime.command import verify_command

    return verify_command(program, arguments, options)
