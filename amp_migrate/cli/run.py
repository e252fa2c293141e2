"""`amp-migrate run`: a program with mixed precision, no file changed."""

from __future__ import annotations

import click

from amp_migrate import config
from amp_migrate.cli import options


@click.command(
    "run",
    short_help="Run a program with mixed precision, without changing a file.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "-m",
    "as_module",
    is_flag=True,
    help="PROGRAM is the name of a module, as in python -m.",
)
@click.option(
    "--dtype",
    default="float16",
    show_default=True,
    type=options.Setting("|".join(config.DTYPES), config.dtype),
    metavar="|".join(config.DTYPES),
)
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Do not list what was rewritten and what was refused.",
)
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    program: str,
    arguments: tuple[str, ...],
    as_module: bool,
    dtype: str,
    quiet: bool,
) -> int:
    """Run PROGRAM with its ARGUMENTS; its training loops, and those of its project's modules, use
    mixed precision.

    They are rewritten in memory, no file is changed. Tracebacks show the original files. Options of
    run stand before PROGRAM. Under torchrun: torchrun --nproc-per-node 2 -m amp_migrate run
    train.py
    """
    from amp_migrate.runtime.launch import run_program

    return run_program(program, arguments, as_module, dtype, quiet)
