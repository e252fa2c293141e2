"""Arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from amp_migrate import config
from amp_migrate.cli.grouped import Group
from amp_migrate.project.discovery import Found

STDIN = Path("-")
FILES = Group("Which files")
since = FILES(
    "--since",
    metavar="REV",
    help="Only files changed since this git revision; main... for since this branch left main.",
)

exclude = FILES(
    "--exclude",
    metavar="PATTERN",
    multiple=True,
    help="Leave out paths, as .gitignore does. Repeatable.",
)
stdin_filename = FILES(
    "--stdin-filename",
    metavar="NAME",
    help="What to call the program from standard input; its folder's settings apply.",
)


class Setting(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A value that the settings file may hold as well, read as there."""

    def __init__(self, name: str, read: Callable[[object], object]) -> None:
        """`name` stands in the help."""
        self.name = name
        self.read = read

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> object:
        """Read `value`; fails with what is wrong about it."""
        try:
            return self.read(value)
        except config.ConfigError as error:
            self.fail(str(error), param, ctx)


def checked_paths(
    ctx: click.Context, param: click.Parameter, paths: Sequence[Path]
) -> tuple[Path, ...]:
    """Demand that every path is there, and that `-` stands alone."""
    if STDIN in paths and len(paths) > 1:
        raise click.BadParameter(
            "- stands for standard input and cannot be joined with other paths",
            ctx,
            param,
        )
    for path in paths:
        if path != STDIN and not _there(path):
            raise click.BadParameter(
                f"{str(path)!r} is not there.{_meant(ctx, path)}", ctx, param
            )
    return tuple(paths)


def _there(path: Path) -> bool:
    try:
        path.lstat()
    except PermissionError:
        return (
            True  # something is; what is wrong with it is told when it is read
        )
    except (OSError, ValueError):
        return False
    return True


def _meant(ctx: click.Context, path: Path) -> str:
    import difflib

    group = ctx.parent.command if ctx.parent else None
    names = group.list_commands(ctx) if isinstance(group, click.Group) else []
    close = difflib.get_close_matches(str(path), names, 1)
    return f" Did you mean the command {close[0]!r}?" if close else ""


def named(
    paths: tuple[Path, ...], stdin_filename: str | None
) -> tuple[Path, ...]:
    """The paths, with the name that standard input goes by in its place.

    Raises click.UsageError where there is a name and no standard input.
    """
    if stdin_filename is None:
        return paths
    if paths != (STDIN,):
        raise click.UsageError(
            "--stdin-filename names standard input; pass - as the path"
        )
    return (Path(stdin_filename),)


Given = TypeVar("Given")


def taken(kind: type[Given], flags: dict[str, Any]) -> Given:
    """The options that a named tuple names, out of `flags`; the others are settings."""
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return kind(**{name: flags.pop(name) for name in names})


def load_config(paths: Sequence[Path], flags: dict[str, Any]) -> config.Config:
    """`config.load`, with its errors as wrong usage."""
    try:
        return config.load([path for path in paths if path != STDIN], flags)
    except config.ConfigError as error:
        raise click.UsageError(str(error)) from None


def excludes(
    ours: config.Config, flag: Sequence[str]
) -> list[tuple[Path, Sequence[str]]]:
    """Patterns of the settings file, relative to it, and those of the command line, relative to
    the current folder.
    """
    from_file = ours.settings.exclude
    return [(ours.folder, from_file), (Path.cwd(), tuple(flag))]


def changed(
    paths: Sequence[Path], revision: str | None
) -> frozenset[str] | None:
    """What `--since` limits a run to, by resolved path; None where it is not given."""
    if revision is None:
        return None
    if paths == (STDIN,):
        raise click.UsageError(
            "--since asks git about files; standard input is none"
        )
    from amp_migrate.project.since import SinceError, changed_since

    try:
        return changed_since(revision, paths)
    except SinceError as error:
        raise click.UsageError(f"--since: {error}") from None


def among(
    changed: frozenset[str] | None, files: Iterable[Found]
) -> list[Found]:
    """The files that a run is limited to; what cannot be read is always told."""
    return [
        one
        for one in files
        if changed is None or one.real in changed or one.error is not None
    ]
