"""The command line: one module per command, imported when it is called."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import sys
from importlib import import_module

import click

from amp_migrate import __version__
from amp_migrate.display import colour_wish

DEFAULT = "migrate"
# Name, module below this package, and the line in `amp-migrate --help`; each module has a command
# called as its name.
COMMANDS = {
    "migrate": "Rewrite plain training loops to mixed precision (the default).",
    "lint": "Report mistakes in code that uses mixed precision.",
    "run": "Run a program with mixed precision, without changing a file.",
    "verify": "Run a program as it is and rewritten, and compare.",
    "explain": "Print the page of a rule or of a reason to refuse.",
}
# What these make (modules, then trees) stays until they are done, and a collector that looks for
# garbage in it after each 700 objects takes a tenth of a start. `run` leaves a program its own.
_READING = ("migrate", "lint")
_RARELY = (300_000, 20, 50)


class LazyGroup(click.Group):
    """Commands by name; whatever does not start with one is for the default command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All of them, in the order of the help."""
        return list(COMMANDS)

    def get_command(
        self, ctx: click.Context, cmd_name: str
    ) -> click.Command | None:
        """Import the module of `cmd_name`."""
        if cmd_name not in self.list_commands(ctx):
            return None
        if cmd_name in _READING:
            gc.set_threshold(*_RARELY)
        command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command in front where none is named."""
        own = {"--help", "-h", "--version", *self.list_commands(ctx)}
        if args and args[0] not in own:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, COMMANDS[name]) for name in self.list_commands(ctx)]
            )


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(
    __version__, prog_name="amp-migrate", message="%(prog)s %(version)s"
)
def cli() -> None:
    """Rewrite plain PyTorch training loops to automatic mixed precision.

    \b
    amp-migrate PATH...            rewrite files and folders in place
    amp-migrate --diff PATH...     show what would change
    amp-migrate migrate --help     all options of the default command
    """  # noqa: D301 - click reads a backspace as "keep these lines"


def main(args: list[str] | None = None) -> int:
    """Run the command line and return the exit code.

    0: done. 1: something is to be looked at. 2: wrong usage or an internal error. 130: interrupted.
    """
    try:
        code = cli.main(
            args,
            prog_name="amp-migrate",
            standalone_mode=False,
            color=colour_wish(),
        )
        sys.stdout.flush()
    except click.exceptions.Abort:
        click.echo("amp-migrate: interrupted.", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OSError as error:
        # What goes wrong with a file is told of the file: this is standard output.
        return _unwritten(error) if error.errno in _OUTPUT_LOST else _internal()
    except Exception:
        return _internal()
    return code if isinstance(code, int) else 0


def console() -> int:
    """Be the program: end at once where nothing but its own memory is left to be freed, piece by
    piece, which takes as long as reading a file. `run` leaves a program its own end.
    """
    code = main()
    others = COMMANDS.keys() - set(_READING)
    if any(f"{__name__}.{name}" in sys.modules for name in others):
        return code
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


_OUTPUT_LOST = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)


def _unwritten(error: OSError) -> int:
    """Nobody reads the report any more (`| head`), or there is no room for it: no fault of ours.

    The exit code is that of a program that SIGPIPE ends, or of one that cannot write (EX_IOERR).
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(
            nowhere, sys.stdout.fileno()
        )  # what is left is flushed at the exit
    if error.errno == errno.EPIPE:
        return 128 + 13
    click.echo(
        f"amp-migrate: standard output cannot be written: {error.strerror}",
        err=True,
    )
    return 74


def _internal() -> int:
    import platform
    import traceback

    click.echo(traceback.format_exc(), err=True, nl=False)
    versions = (
        f"amp-migrate {__version__}, Python {platform.python_version()}, "
        f"{platform.platform()}"
    )
    message = (
        "amp-migrate: internal error. Please report it with the lines above, the command "
        f"line and: {versions}."
    )
    click.echo(message, err=True)
    return 2


if __name__ == "__main__":
    sys.exit(console())
