"""Time and memory on a large tree, with one worker and with all cores, and what a run on few
changed files costs.

`python -m tests.bench.bench_tree [FILES] [PROGRAMS]` makes a tree of 20,000 files in packages of 50
that import each other, 300 of which are programs of fixtures/ (whole folders where a program has
several files), and prints a table in Markdown. `python -m tests.bench.bench_tree FOLDER` measures a
tree that is there; nothing is written to it.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from amp_migrate.config import Settings
from amp_migrate.pipeline.batch import _Run
from amp_migrate.project.discovery import SUFFIXES, discover
from tests.bench.bench_migrate import ROOT, _modules_without_loops, compile_package, timed

FILES, PROGRAMS, PACKAGE = 20_000, 300, 50


class Cost(NamedTuple):
    """Of one command with all its processes."""

    output: bytes
    clock: float
    used: float
    """CPU seconds of all processes."""
    parent: float
    """Peak memory in MiB."""
    worker: float
    """That of the largest worker, in MiB."""


def make_tree(root: Path, files: int, programs: int) -> None:
    """Programs spread among modules without any; each module imports the one before it."""
    sources = itertools.cycle(sorted(path.parent for path in ROOT.glob("fixtures/*/case.toml")))
    others = itertools.cycle(_modules_without_loops())
    made = 0
    for number in itertools.count():
        if made >= files:
            return
        package = root / f"package_{made // PACKAGE:04}"
        package.mkdir(exist_ok=True)
        if made * programs // files > (made - 1) * programs // files:
            made += _program(next(sources), package / f"program_{number:05}")
        else:
            before = f"from package_{made // PACKAGE:04} import module_{number - 1:05}\n"
            (package / f"module_{number:05}.py").write_bytes(
                next(others).read_bytes() + b"\n" + before.encode()
            )
            made += 1


def _program(fixture: Path, folder: Path) -> int:
    """The program as it was before; how many files it has."""
    folder.mkdir()
    start = fixture / "before"
    found = start.rglob("*") if start.is_dir() else fixture.glob("before.*")
    paths = sorted(path for path in found if path.suffix in SUFFIXES)
    for path in paths:
        target = folder / (path.relative_to(start) if start.is_dir() else path.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    return len(paths)


# Runs the command line, and tells the peaks of this process and of its largest child.
MEASURED = """
import os, resource, sys
from amp_migrate.cli import main
from amp_migrate.pipeline import workers as parallel

workers, told = int(sys.argv[1]), sys.argv[2]
if workers:
    parallel.workers_for = lambda *_, **__: workers
code = main(sys.argv[3:])
own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
used = sum(one.ru_utime + one.ru_stime for one in (own, children))
with open(told, "w") as file:
    print(used, own.ru_maxrss / 1024, children.ru_maxrss / 1024, file=file)
os._exit(code)
"""


def run(workers: int, *args: object) -> Cost:
    """Run the command line in `workers` processes, or in as many as it chooses (0)."""
    with tempfile.NamedTemporaryFile() as told:
        command = [sys.executable, "-c", MEASURED, str(workers), told.name, *map(str, args)]
        start = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        clock = time.perf_counter() - start
        figures = Path(told.name).read_text().split()
    if done.returncode > 1 or not figures:
        raise RuntimeError(done.stderr.decode())
    used, parent, worker = map(float, figures)
    return Cost(done.stdout, clock, used, parent, worker)


def index(tree: Path) -> str:
    """A row about what is done before any file is parsed: finding, reading, sifting, and who
    imports whom.
    """
    seconds, found = timed(lambda: list(discover([tree])))
    sifting, (sizes, project) = timed(lambda: _Run(found, Settings(), False)._sift())
    told = (
        f"{len(sizes):,} of {len(found):,} files may train; the index is "
        f"{len(pickle.dumps(project)) / 2**20:.1f} MiB"
    )
    return (
        f"| finding, reading, index | {seconds + sifting:.1f} | {seconds + sifting:.1f} | | | "
        f"{told} |"
    )


def commands(tree: Path) -> Iterator[str]:
    """Rows about the commands, in one worker and in all."""
    for name, args in (("migrate --check", ("migrate", "--check")), ("lint", ("lint", "--quiet"))):
        one = run(1, *args, "--output-format", "json", tree)
        every = run(0, *args, "--output-format", "json", tree)
        same = "the same report" if one.output == every.output else "ANOTHER REPORT"
        report = json.loads(one.output)
        told = f"{len(report):,} findings" if isinstance(report, list) else str(report["summary"])
        yield _row(f"`{name}`, one worker", one, told)
        yield _row(f"`{name}`, all cores", every, same)


def few(tree: Path) -> Iterator[str]:
    """Rows about a run for one changed file, in a repository made of the tree."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    who = (
        "-c",
        "user.name=bench",
        "-c",
        "user.email=bench@example.org",
        "-c",
        "core.fsync=none",
        "-c",
        "gc.auto=0",
    )
    for command in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "all")):
        subprocess.run(["git", *who, *command], cwd=tree, env=environment, check=True)
    changed = next(path for path in sorted(tree.glob("**/before.py")))
    changed.write_bytes(changed.read_bytes() + b"# changed\n")
    for args in (("migrate", "--check"), ("lint", "--quiet")):
        yield _row(
            f"`{args[0]} --since HEAD`, one file changed",
            run(0, *args, "--since", "HEAD", tree),
            "",
        )


def _row(name: str, cost: Cost, note: str) -> str:
    worker = f"{cost.worker:.0f}" if cost.worker else ""
    return (
        f"| {name} | {cost.clock:.1f} | {cost.used:.1f} | {cost.parent:.0f} | {worker} | {note} |"
    )


def table(tree: Path, ours: bool) -> Iterator[str]:
    """The table, line by line; `ours`: the tree was made for this and may be changed."""
    yield "| | seconds | CPU seconds | parent, MiB | largest worker, MiB | |"
    yield "|---|---:|---:|---:|---:|---|"
    yield index(tree)
    yield from commands(tree)
    if ours:
        yield from few(tree)


def main(args: list[str]) -> None:
    """Print the table."""
    compile_package()
    if args and not args[0].isdigit():
        for line in table(Path(args[0]), ours=False):
            print(line, flush=True)
        return
    counts = [int(one) for one in args] + [FILES, PROGRAMS][len(args) :]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        make_tree(tree, *counts)
        for line in table(tree, ours=True):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
