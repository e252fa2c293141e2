"""Help that lists options by what they are for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from amp_migrate.records import NamedTuple

Function = TypeVar("Function", bound=Callable[..., Any])


class Grouped(click.Command):
    """A command whose help lists its options by what they are for; `group` names the groups."""

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the groups in the order in which their first options are declared."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = (
                param.get_help_record(ctx)
                if isinstance(param, click.Option)
                else None
            )
            if record is not None:
                groups.setdefault(getattr(param, "group", "Help"), []).append(
                    record
                )
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


class Option(click.Option):
    """An option that belongs to a group of the help."""

    def __init__(self, *args: Any, group: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group = group


class Group(NamedTuple):
    """Options of one purpose: an instance is used as `click.option` is."""

    name: str

    def __call__(
        self, *names: str, **settings: Any
    ) -> Callable[[Function], Function]:
        """Declare an option of this group."""
        return click.option(*names, cls=Option, group=self.name, **settings)
