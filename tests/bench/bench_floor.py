"""What Python and LibCST alone take for the files of a tree, beside what `migrate --check` takes.

`python -m tests.bench.bench_floor [FOLDER...]` prints a table in Markdown of these trees, or of the
projects of `bench_projects`: the start of Python with LibCST, `ast.parse` of each file that may
train and of each output, LibCST's parse and print of the statements at the top level that change,
and the compiler on the outputs. No migrator that reads with `ast`, writes with LibCST and proves
that its output compiles can be faster; what it asks of a program comes on top.
"""

from __future__ import annotations

import ast
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import libcst

from amp_migrate.config import Settings
from amp_migrate.pipeline import workers as parallel
from amp_migrate.pipeline.batch import rewrite_all
from amp_migrate.project.discovery import discover
from amp_migrate.project.errors import SourceError
from amp_migrate.project.prefilter import may_train
from amp_migrate.project.text import decode
from tests.bench.bench_migrate import ROOT, compile_package, make_tree, timed
from tests.bench.bench_projects import MIGRATE, component, library


class Text(NamedTuple):
    """A file, and what becomes of it."""

    before: str
    after: str


def texts(tree: Path) -> Iterator[Text]:
    """The files of a tree that may train, in one process."""
    found = list(discover([tree]))
    before, parallel.workers_for = parallel.workers_for, lambda *_, **__: 0
    try:
        batch = rewrite_all(found, Settings(), write=False)
    finally:
        parallel.workers_for = before
    changed = {real: one for real, one in zip(batch.reals, batch.results, strict=True) if one.after}
    for one in found:
        data = one.path.read_bytes()
        if may_train(data):
            new = changed[one.real].after if one.real in changed else data
            with contextlib.suppress(SourceError):
                yield Text(*(decode(text, one.path.name).text for text in (data, new)))


def statements(text: Text) -> str:
    """The statements at the top level of a file that its output does not have."""
    kept = set(_statements(text.after))
    return "\n".join(one for one in _statements(text.before) if one not in kept) + "\n"


def _statements(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    return ["".join(lines[s.lineno - 1 : s.end_lineno]) for s in ast.parse(text).body]


def parts(found: Sequence[Text]) -> Iterator[tuple[str, float]]:
    """What each part of the floor takes, in CPU seconds of this process."""
    changed = [one for one in found if one.before != one.after]
    read = [one.before for one in found]
    written = [one.after for one in changed]
    touched = [statements(one) for one in changed]
    yield "`ast.parse` of what may train", _spent(ast.parse, read)
    yield "`ast.parse` of the outputs", _spent(ast.parse, written)
    yield "LibCST on what changes", _spent(lambda one: libcst.parse_module(one).code, touched)
    yield "compiling the outputs", _spent(lambda one: compile(one, "", "exec", 0, True), written)


def _spent(function: Callable[[str], object], given: Sequence[str]) -> float:
    def each() -> None:
        for one in given:
            try:
                function(one)
            except (SyntaxError, ValueError, libcst.ParserSyntaxError):
                continue

    return timed(each)[0]


def used(*args: str) -> float:
    """CPU seconds of `python ARGS`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, *args], cwd=ROOT, env=environment, capture_output=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(trees: dict[str, Path]) -> Iterator[str]:
    """A row for each tree."""
    parted = ("start, LibCST imported", *(name for name, _ in parts(())))
    yield f"| project | {' | '.join(parted)} | floor, s | `migrate --check`, s | ratio |"
    yield "|---|" + "---:|" * (len(parted) + 3)
    for name, tree in trees.items():
        row = [used("-c", "import libcst"), *(took for _, took in parts(list(texts(tree))))]
        took = used("-c", MIGRATE, str(tree))
        told = " | ".join(f"{one:.2f}" for one in row)
        yield f"| {name} | {told} | {sum(row):.2f} | {took:.1f} | {took / sum(row):.1f} |"


def made(top: Path) -> dict[str, Path]:
    """The projects of `bench_projects`."""
    trees = {
        "library of 100 files": top / "library",
        "130 files in one component": top / "component",
        "1,300 files with 180 loops": top / "tree",
    }
    one, two, three = trees.values()
    library(one, 100)
    component(two, 130)
    three.mkdir()
    make_tree(three)
    return trees


def main(args: list[str]) -> None:
    """Print the table."""
    compile_package()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        named = {Path(arg).name: Path(arg).resolve() for arg in args}
        for line in table(named or made(Path(folder).resolve())):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
