"""`amp-migrate verify`: the original program against the rewritten one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command(
    "verify",
    short_help="Run a program as it is and rewritten, and compare.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("-m", "as_module", is_flag=True, help="PROGRAM is the name of a module, as in python -m.")
@click.option("--steps", default=50, show_default=True, type=click.IntRange(1), help="Optimizer steps per run.")
@click.option("--dtype", default="float16", show_default=True, type=click.Choice(["float16", "bfloat16", "both"]))
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Default: cuda where there is one.")
@click.option("--against", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Compare with this file instead of the rewritten program.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE",
              help="Write the result as JSON; - is standard output.")  # fmt: skip
@click.option("--html", "html_file", type=click.Path(dir_okay=False), metavar="FILE", help="Write a page with plots.")
@click.option(
    "--nproc", default=1, type=click.IntRange(1), metavar="N", help="Run every program under torchrun, N processes."
)
@click.option("--program-device", metavar="TYPE", help="For a program without device code, as migrate --device.")
@click.option("--seed", default=0, show_default=True, type=int)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="For one run.")
@click.option("--scratch", is_flag=True, help="Run in copies of the current folder.")
@click.option("--bisect", is_flag=True, help="Where it fails, try the advice: rerun with the named modules in float32.")
@click.option("--no-drills", is_flag=True, help="Leave out the forced overflow and the checkpoint round trip.")
@click.option(
    "--loss-factor", type=float, help="Half width of the loss band, in the program's own noise.  [default: 3]"
)
@click.option("--loss-floor", type=float, help="The same as a share of the loss.  [default: 0.05]")
@click.option("--first-loss", type=float, help="Relative difference before the first step.  [default: 0.02]")
@click.option("--gradient-factor", type=float, help="RMSE of the gradients, in that of float32.  [default: 3]")
@click.option("--gradient-tolerance", type=float, help="A tenth of it is allowed on top.  [default: 2]")
@click.option("--gradient-scale", type=float, help="How much too long or short the gradient may be.  [default: 0.02]")
@click.option("--layer-scale", type=float, help="The same for one parameter's gradient.  [default: 0.05]")
@click.option("--cosine", type=float, help="Where float64 cannot run.  [default: 0.99]")
@click.option("--skipped", type=int, help="Steps that may be skipped.  [default: 16]")
@click.option("--min-speedup", type=float, help="Fail below this ratio to float32.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def verify(program: str, arguments: tuple[str, ...], **options: Any) -> int:
    """Run PROGRAM with its ARGUMENTS as it is, rewritten with AMP off, and rewritten with AMP on, and compare.

    Every run is a process of its own, with the same seeds, and stops after --steps optimizer steps. Options of verify
    stand before PROGRAM. No file is written but what PROGRAM itself writes; --scratch has it write into copies.

    Exit code 0: all checks passed. 1: one failed, or nothing could be compared. 2: wrong usage.
    """
    from amp_migrate.runtime.command import verify_command

    return verify_command(program, arguments, options)
