"""`amp-migrate explain [RULE]`."""

from __future__ import annotations

import sys

import click

from amp_migrate import pages

PIPE_WIDTH = 100


@click.command()
@click.argument("rule", required=False)
def explain(rule: str | None) -> None:
    """Print the page of RULE, a rule or a reason to refuse; without RULE, list all pages."""
    if rule is None:
        _list()
        return
    try:
        page = pages.find(rule)
    except KeyError:
        raise click.UsageError(_unknown(rule)) from None
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(Markdown(page.text))


def _unknown(rule: str) -> str:
    close = pages.suggestions(rule)
    meant = f"Did you mean {' or '.join(close)}?" if close else "`amp-migrate explain` lists all pages."
    return f"there is no page {rule!r}. {meant}"


def _list() -> None:
    every = pages.all_pages()
    width = max((len(page.name) for page in every), default=0)
    for page in every:
        click.echo(click.style(page.name, bold=True) + " " * (width - len(page.name) + 2) + page.summary)
