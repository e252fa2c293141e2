"""`amp-migrate run`: this process becomes the user's program."""

from __future__ import annotations

import itertools
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import click

from amp_migrate.config import OLDEST_TORCH, ConfigError, Settings, load
from amp_migrate.report.summary import summary
from amp_migrate.runtime.cells import traceback_by_cell
from amp_migrate.runtime.child import user_frames
from amp_migrate.runtime.import_hook import (
    Compiler,
    exec_module,
    exec_script,
    install,
)
from amp_migrate.runtime.needs import require_torch
from amp_migrate.runtime.plan import (
    Plan,
    ProgramError,
    find_program,
    plan_program,
    search_path,
)
from amp_migrate.runtime.spawned import follow


def run_program(
    program: str,
    arguments: Sequence[str],
    as_module: bool,
    dtype: str | None,
    quiet: bool,
) -> int:
    """Tell what is migrated, then run; the exit code is the program's own."""
    require_torch("run")
    plan = prepare(program, as_module, {"dtype": dtype})
    if not quiet:
        tell(plan)
    compiler = Compiler(plan.texts.get)
    install(compiler)
    follow(plan.texts, None)
    try:
        if as_module:
            exec_module(program, arguments)
        else:
            exec_script(program, arguments, compiler, Path.cwd())
    except SystemExit as stop:
        return _exit_code(stop)
    except (
        BaseException
    ) as error:  # whatever the program raises is shown as Python shows it
        _show(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def prepare(program: str, as_module: bool, flags: dict[str, object]) -> Plan:
    """The rewritten program; wrong usage is told as such."""
    cwd = Path.cwd()
    try:
        script = find_program(program, as_module, cwd)
        settings = _settings(script, flags)
    except (ProgramError, ConfigError) as error:
        raise click.UsageError(str(error)) from None
    return plan_program(script, search_path(script, as_module, cwd), settings)


def _settings(script: Path, flags: dict[str, object]) -> Settings:
    given = {name: one for name, one in flags.items() if one is not None}
    settings = load([script], given).settings
    admitted = settings.admitted_torch
    if settings.target_torch or admitted is None or admitted >= OLDEST_TORCH:
        return settings
    # Whatever old one the project asks for: it is this one that runs it now.
    return settings._replace(target_torch=_torch_that_runs())


def _torch_that_runs() -> tuple[int, int]:
    major, minor = version("torch").split(".")[:2]
    return int(major), int(minor)


def tell(plan: Plan) -> None:
    """What is migrated and refused, on standard error, once among the ranks of a launcher."""
    if os.environ.get("RANK", "0") != "0":
        return
    told = [
        replace(outcome, path=_from_here(outcome.path))
        for outcome in plan.outcomes
        if outcome.loops or outcome.error or outcome.changes
    ]
    for line in (
        itertools.takewhile(bool, summary(told, True, 100)) if told else ()
    ):
        click.echo(line, err=True)
    count = sum(
        loop.status == "migrated" for outcome in told for loop in outcome.loops
    )
    click.echo(
        f"{count} loop{'s' * (count != 1)} rewritten in memory; no file is changed",
        err=True,
    )


def _from_here(path: str) -> str:
    """A path below the current folder as the user would name it."""
    below = os.path.relpath(path)
    return path if below.startswith(os.pardir) else below


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    sys.stderr.write(f"{stop.code}\n")
    return 1


def _show(error: BaseException) -> None:
    error.__traceback__ = user_frames(
        error.__traceback__
    )  # the hook looks there, not at its argument
    shown = "".join(traceback.format_exception(error))
    by_cell = traceback_by_cell(shown)
    if by_cell == shown:
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        sys.stderr.write(by_cell)
