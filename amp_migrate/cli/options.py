"""Arguments that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from amp_migrate import config
from amp_migrate.source.discovery import Found

STDIN = Path("-")
since = click.option(
    "--since",
    metavar="REV",
    help="Only files changed since this git revision; main... for since this branch left main.",
)


class TorchVersion(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """`X.Y` as a pair of numbers."""

    name = "X.Y"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Read `value`."""
        try:
            return config.torch_version(value)
        except config.ConfigError as error:
            self.fail(str(error), param, ctx)


def checked_paths(ctx: click.Context, param: click.Parameter, paths: Sequence[Path]) -> tuple[Path, ...]:
    """Demand that every path is there, and that `-` stands alone."""
    if STDIN in paths and len(paths) > 1:
        raise click.BadParameter("- stands for standard input and cannot be joined with other paths", ctx, param)
    for path in paths:
        if path != STDIN and not _there(path):
            raise click.BadParameter(f"{str(path)!r} is not there.{_meant(ctx, path)}", ctx, param)
    return tuple(paths)


def _there(path: Path) -> bool:
    try:
        path.lstat()
    except PermissionError:
        return True  # something is; what is wrong with it is told when it is read
    except (OSError, ValueError):
        return False
    return True


def _meant(ctx: click.Context, path: Path) -> str:
    import difflib

    group = ctx.parent.command if ctx.parent else None
    names = group.list_commands(ctx) if isinstance(group, click.Group) else []
    close = difflib.get_close_matches(str(path), names, 1)
    return f" Did you mean the command {close[0]!r}?" if close else ""


def load_config(paths: Sequence[Path], flags: dict[str, Any]) -> config.Config:
    """`config.load`, with its errors as wrong usage."""
    try:
        return config.load([path for path in paths if path != STDIN], flags)
    except config.ConfigError as error:
        raise click.UsageError(str(error)) from None


def excludes(ours: config.Config, flag: Sequence[str]) -> list[tuple[Path, Sequence[str]]]:
    """Patterns of the settings file, relative to it, and those of the command line, relative to the current folder."""
    from_file = ours.settings.exclude
    return [(ours.folder, from_file), (Path.cwd(), tuple(flag))]


def changed(paths: Sequence[Path], revision: str | None) -> frozenset[str] | None:
    """What `--since` limits a run to, by resolved path; None where it is not given."""
    if revision is None:
        return None
    if paths == (STDIN,):
        raise click.UsageError("--since asks git about files; standard input is none")
    from amp_migrate.source.since import SinceError, changed_since

    try:
        return changed_since(revision, paths)
    except SinceError as error:
        raise click.UsageError(f"--since: {error}") from None


def among(changed: frozenset[str] | None, files: Iterable[Found]) -> list[Found]:
    """The files that a run is limited to; what cannot be read is always told."""
    return [one for one in files if changed is None or one.real in changed or one.error is not None]
