"""Speed and memory of `amp-migrate lint`, against parsing the same files and against TorchFix, in
one run.

`python -m tests.bench.bench_lint [--torchfix COMMAND] [--tree FOLDER]` prints a table in Markdown,
of the tree at FOLDER or of one that it makes: 1,300 files, 390 of which use mixed precision or hold
a training loop (the programs of fixtures/, before and after), the others neither (the standard
library). COMMAND is an installed TorchFix; without it, that row is left out.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint import files
from amp_migrate.pipeline.lint.batch import lint_all
from amp_migrate.pipeline.lint.files import Options
from amp_migrate.pipeline.lint.results import Report
from amp_migrate.project.discovery import discover
from tests.bench.bench_migrate import (
    ROOT,
    _modules_without_loops,
    compile_package,
    each,
    start_time,
    timed,
)

FILES, PROGRAMS = 1_300, 390


def make_tree(root: Path) -> None:
    """Programs spread among modules without any."""
    programs = itertools.cycle(sorted(ROOT.glob("fixtures/*/*.py")))
    others = itertools.cycle(_modules_without_loops())
    for number in range(FILES):
        source = next(programs) if number * PROGRAMS % FILES < PROGRAMS else next(others)
        target = root / f"{number // 50:02}" / f"module_{number:04}.py"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes())


def parse(path: Path) -> None:
    """What `ast` alone costs; some fixtures do not parse on purpose."""
    try:
        ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return


def children(command: Sequence[str]) -> tuple[float, float]:
    """Seconds of the clock and of all processors that `command` and its own processes take."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        time.perf_counter() - start,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )


def peak(tree: Path) -> float:
    """The peak memory in MiB of one process that lints the whole tree."""
    code = (
        "import resource, sys; from amp_migrate.cli import main; from amp_migrate.pipeline import workers as parallel; parallel.workers_for "
        "= lambda *_: 0\n"
        "main(['lint', '-q', '--output-file', sys.argv[2], sys.argv[1]])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    command = [sys.executable, "-c", code, str(tree), os.devnull]
    return (
        int(subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True).stdout)
        / 1024
    )


def measure(tree: Path, torchfix: str | None) -> Iterator[tuple[str, float, str]]:
    """Rows of the table: what, seconds, and what it is to be compared with."""
    found = list(discover([tree]))
    lines = sum(one.path.read_bytes().count(b"\n") for one in found)
    passed = [one.path for one in found if not isinstance(files.sift(one.path), Report)]
    sifting, _ = timed(lambda: [files.sift(one.path) for one in discover([tree])])
    yield f"finding and prefiltering {len(found):,} files", sifting, f"{lines:,} lines"
    parsing, _ = timed(lambda: each(passed, parse))
    yield (
        f"ast.parse of the {len(passed)} that pass",
        parsing,
        f"{len(passed) / len(found):.0%} of the files",
    )
    options = Options(Settings(), tree)
    files.lint_file(passed[0], options)  # imports are paid once
    linting, reports = timed(lambda: [files.lint_file(path, options) for path in passed])
    count = sum(len(report.findings) for report in reports)
    whole = sifting + linting
    note = (
        f"{lines / whole:,.0f} lines a CPU second with the row above; {linting / parsing:.1f} "
        "x ast.parse"
    )
    yield f"linting them in one process, {count} findings", linting, note
    clock, used = children([sys.executable, "-m", "amp_migrate", "lint", str(tree)])
    yield (
        "the whole command",
        clock,
        f"{used:.2f} CPU seconds; {peak(tree):.0f} MiB at most in one process",
    )
    if torchfix is not None:
        theirs, their_use = children([torchfix, "--select", "ALL", str(tree)])
        yield (
            "TorchFix",
            theirs,
            f"{their_use / used:.0f} x the CPU time, {theirs / clock:.0f} x the clock",
        )
    one = sorted(passed, key=lambda path: path.stat().st_size)[len(passed) // 2]
    hook = start_time("-m", "amp_migrate", "lint", "--exit-zero", str(one))
    click = start_time("-c", "import click")
    yield (
        "a hook run on the file of median size",
        hook,
        f"{hook / click:.1f} x `python -c 'import click'`; limit 3",
    )


def same_with_workers(tree: Path) -> bool:
    """Whether both ways give the same findings in the same order."""
    from amp_migrate.pipeline import workers as parallel

    found = list(discover([tree]))
    options = Options(Settings(), tree)
    results = []
    for count in (0, 2):
        parallel.workers_for = lambda sizes, worth=0, count=count: count
        results.append(
            [report.findings for report in lint_all(found, options, write=False).reports]
        )
    return results[0] == results[1]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torchfix", metavar="COMMAND")
    parser.add_argument("--tree", metavar="FOLDER", type=Path)
    given = parser.parse_args()
    compile_package()
    with tempfile.TemporaryDirectory() as folder:
        tree = given.tree or Path(folder)
        if given.tree is None:
            make_tree(tree)
        print("| | seconds | |\n|---|---:|---|")
        for what, seconds, note in measure(tree, given.torchfix):
            print(f"| {what} | {seconds:.3f} | {note} |", flush=True)
        print(
            "\nThe same findings in the same order with two workers: "
            f"{'yes' if same_with_workers(tree) else 'NO'}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
