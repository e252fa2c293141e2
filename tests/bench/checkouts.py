"""Checkouts of repositories, amp-migrate run on them, and tables of what it said."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Checkout:
    """A repository at one commit, in a folder."""

    name: str
    commit: str
    folder: Path


def checkout(text: str) -> Checkout:
    """Read `FOLDER` or `NAME@COMMIT=FOLDER`; without a name, the folder and git tell."""
    label, equals, folder = text.rpartition("=")
    path = Path(folder)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{folder} is no folder")
    if equals:
        name, _, commit = label.partition("@")
        return Checkout(name, commit[:10], path)
    return Checkout(path.resolve().name.replace("+", "/"), _head(path), path)


def _head(folder: Path) -> str:
    """The commit, where the folder itself is a checkout and not a part of another."""
    if not (folder / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), "rev-parse", "--short=10", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def report(*args: str) -> Any:
    """The JSON that `amp-migrate ARGS` prints; raises CalledProcessError for an internal error."""
    done = subprocess.run(
        [sys.executable, "-m", "amp_migrate", *args], stdout=subprocess.PIPE, check=False
    )
    if done.returncode not in (0, 1):
        done.check_returncode()
    return json.loads(done.stdout)


def counted(names: Iterable[str]) -> str:
    """How often each name occurs, the most frequent first, and in front how many there are."""
    counts = Counter(names)
    each = ", ".join(
        f"`{name}` {count}"
        for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    )
    return f"{counts.total()}: {each}" if counts else "0"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"
