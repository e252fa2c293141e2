"""`amp-migrate explain [RULE]`."""

from __future__ import annotations

import sys

import click

from amp_migrate.report import pages

PIPE_WIDTH = 100


@click.command()
@click.argument("rule", required=False)
def explain(rule: str | None) -> None:
    """Print the page of RULE, a rule or a reason to refuse; without RULE, list all by topic."""
    if rule is None:
        _list()
        return
    try:
        page = pages.find(rule)
    except KeyError:
        raise click.UsageError(_unknown(rule)) from None
    _print(page.text)


def _print(text: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    if sys.stdout.isatty():
        Console().print(Markdown(text))
        return
    console = Console(width=PIPE_WIDTH)
    with console.capture() as shown:
        console.print(Markdown(text))
    # Lines are filled with blanks up to the width; no reader of a pipe wants them.
    click.echo("\n".join(line.rstrip() for line in shown.get().splitlines()))


def _unknown(rule: str) -> str:
    close = pages.suggestions(rule)
    meant = (
        f"Did you mean {' or '.join(close)}?"
        if close
        else "`amp-migrate explain` lists all pages."
    )
    return f"there is no page {rule!r}. {meant}"


def _list() -> None:
    for number, (title, found) in enumerate(pages.by_topic().items()):
        click.echo(("\n" if number else "") + click.style(title, bold=True))
        width = max(len(page.name) for page in found)
        for page in found:
            click.echo(f"  {page.name:{width}}  {page.summary}")
