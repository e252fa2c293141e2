"""What lint finds in whole repositories.

`python -m tests.bench.lint_corpus FOLDER...` lints checkouts with the default rules and prints a
table in Markdown. A folder is given as it is or as `NAME@COMMIT=FOLDER`. `--findings` lists every
finding, to be read beside the source.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amp_migrate.project.discovery import discover
from tests.bench.checkouts import Checkout, checkout, counted, report, table

HEADER = ("Repository", "Commit", "Files", "Findings")


@dataclass(frozen=True)
class Linted:
    """A repository, how many files it has, and what was found in them."""

    place: Checkout
    files: int
    findings: Sequence[dict[str, Any]]


def main(args: Sequence[str] | None = None) -> None:
    """Print the table, and the findings where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("places", nargs="+", type=checkout, metavar="[NAME@COMMIT=]FOLDER")
    parser.add_argument("--ignore", metavar="RULE[,RULE...]", help="handed on")
    parser.add_argument("--findings", action="store_true", help="list the findings")
    ours = parser.parse_args(args)
    results = [linted(place, ours.ignore) for place in ours.places]
    print(*table(HEADER, map(row, results)), "", total(results), sep="\n")
    if ours.findings:
        print("", *(line(finding) for result in results for finding in result.findings), sep="\n")


def linted(place: Checkout, ignore: str | None = None) -> Linted:
    """Lint the checkout; nothing is fixed."""
    options = ["--quiet", "--output-format", "json", *(["--ignore", ignore] if ignore else [])]
    return Linted(place, count(place.folder), report("lint", *options, str(place.folder)))


def count(folder: Path) -> int:
    """Python files below `folder` that are not ignored."""
    return sum(found.path.suffix == ".py" for found in discover([folder], []))


def row(result: Linted) -> tuple[object, ...]:
    """One line of the table."""
    rules = counted(finding["rule"] for finding in result.findings)
    return result.place.name, f"`{result.place.commit}`", result.files, rules


def total(results: Sequence[Linted]) -> str:
    """All findings by rule."""
    rules = [finding["rule"] for result in results for finding in result.findings]
    return f"{sum(result.files for result in results)} files. Findings {counted(rules)}."


def line(finding: dict[str, Any]) -> str:
    """Position, rule and message of a finding."""
    return (
        f"{finding['path']}:{finding['line']}:{finding['column']}: {finding['rule']}: "
        f"{finding['message']}"
    )


if __name__ == "__main__":
    main()
