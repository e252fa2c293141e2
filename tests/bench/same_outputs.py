"""Whether this checkout says of projects what another one says, and what CPU time both take.

`python -m tests.bench.same_outputs OTHER_CHECKOUT FOLDER...` runs `--check --output-format json`,
`--diff` and `lint --output-format json` on each folder with both, in one process each, and prints
a line a folder. Nothing is written. The exit code is 1 where an output differs; then the first
lines that do are printed, too.
"""

from __future__ import annotations

import difflib
import itertools
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.bench.bench_migrate import ROOT

_SHOWN = 12
# One process: a worker imports what is installed, which need not be the checkout that it works for.
_RUN = """
import sys
from amp_migrate.pipeline import workers
workers.workers_for = lambda *_, **__: 0
from amp_migrate.cli import main
for args in (
    ["migrate", "--check", "--output-format", "json", "."],
    ["migrate", "--diff", "."],
    ["lint", "--exit-zero", "--output-format", "json", "."],
):
    try:
        code = main(args)
    except SystemExit as end:
        code = end.code
    print("exit", code, flush=True)
"""


class Said(NamedTuple):
    """What one checkout printed, and its CPU time in seconds."""

    text: str
    seconds: float


def said(checkout: Path, folder: Path) -> Said:
    """What a checkout prints of a folder, errors included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-P", "-c", _RUN],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Said(done.stdout, seconds)


def compared(other: Path, folder: Path) -> bool:
    """Print a line about a folder; whether both say the same."""
    before, now = said(other, folder), said(ROOT, folder)
    same = before.text == now.text
    verdict = "the same" if same else "DIFFERS"
    lines = now.text.count("\n")
    print(
        f"{verdict:8} {folder.name}: {lines} lines, "
        f"{before.seconds:.1f} CPU s before, {now.seconds:.1f} now",
        flush=True,
    )
    told = difflib.unified_diff(before.text.splitlines(), now.text.splitlines(), lineterm="", n=0)
    for line in itertools.islice(told, _SHOWN):
        print(f"    {line}", flush=True)
    return same


def main(args: list[str]) -> int:
    """Compare the folders one after the other."""
    other, *folders = (Path(arg).resolve() for arg in args)
    found = [compared(other, folder) for folder in folders]
    return int(not all(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
