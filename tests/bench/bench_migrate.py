"""Speed and memory of a migration, against reading and parsing the same files in the same run.

`python -m tests.bench.bench_migrate` makes a tree of 1,300 files, 180 of which hold a training loop
(the programs of fixtures/, over and over), the others without one (the standard library), and
prints a table in Markdown.
"""

from __future__ import annotations

import ast
import itertools
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import libcst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.pipeline.one_file import Rewritten, rewrite_file, sift
from amp_migrate.planner.plan import Planner
from amp_migrate.project.discovery import discover
from amp_migrate.project.prefilter import may_train
from amp_migrate.project.text import decode

ROOT = Path(__file__).parent.parent.parent
FILES, LOOPS, STARTS = 1_300, 180, 7


def make_tree(root: Path) -> None:
    """Programs with a loop, spread among modules without one."""
    programs = itertools.cycle(sorted(ROOT.glob("fixtures/*/before.py")))
    others = itertools.cycle(_modules_without_loops())
    for number in range(FILES):
        source = next(programs) if number * LOOPS % FILES < LOOPS else next(others)
        target = root / f"{number // 50:02}" / f"module_{number:04}.py"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes())


def _modules_without_loops() -> Iterator[Path]:
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py")):
        if (
            "site-packages" not in path.parts
            and "test" not in path.parts
            and not may_train(path.read_bytes())
        ):
            yield path


def compile_package(checkout: Path = ROOT) -> None:
    """Bytecode for a checkout, as an installation has it. Where Python is told to write none
    (PYTHONDONTWRITEBYTECODE), every start and every worker would compile the whole package.
    """
    package = checkout / "amp_migrate"
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(package)], check=True)


def timed(
    function: Callable[[], Any], clock: Callable[[], float] = time.process_time
) -> tuple[float, Any]:
    """Seconds, and the result; of this process alone by default, which other programs on the
    machine disturb least.
    """
    start = clock()
    result = function()
    return clock() - start, result


def start_time(*args: str) -> float:
    """The shortest of several starts of Python with `args`, in seconds: the machine's load is no
    cost of ours.
    """
    command = [sys.executable, *args]

    def start() -> None:
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)

    return min(timed(start, time.perf_counter)[0] for _ in range(STARTS))


def each(paths: Sequence[Path], function: Callable[[Path], object]) -> None:
    """Call `function` on every path and drop the result: many live trees would slow down what is
    measured next.
    """
    for path in paths:
        function(path)


def parse_with_positions(path: Path) -> None:
    """What LibCST alone costs where positions are needed."""
    MetadataWrapper(libcst.parse_module(path.read_bytes()), unsafe_skip_copy=True).resolve(
        ByteSpanPositionProvider
    )


def plan(path: Path) -> object:
    """The analysis of one file: everything before anything is written."""
    return Planner(Program(decode(path.read_bytes()).text, str(path)), Settings()).plan()


def peak_of_worker(paths: Sequence[Path]) -> float:
    """The peak memory in MiB of one process that rewrites every file: workers are not waited for,
    so they count nowhere.
    """
    code = (
        "import resource, sys; from pathlib import Path; from amp_migrate.config import Settings; "
        "from amp_migrate.pipeline.one_file import rewrite_file\n"
        "for line in sys.stdin: rewrite_file(Path(line.strip()), Settings())\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    given = "\n".join(map(str, paths))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        input=given,
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    return int(done.stdout) / 1024


def measure(tree: Path) -> Iterator[tuple[str, float, str]]:
    """Rows of the table: what, seconds, and what it is to be compared with."""
    found = [one.path for one in discover([tree])]
    read, _ = timed(lambda: each(found, Path.read_bytes))
    yield f"reading {len(found):,} files", read, ""
    sifting, sifted = timed(lambda: [sift(one.path) for one in discover([tree])])
    passed = [
        path
        for path, result in zip(found, sifted, strict=True)
        if not isinstance(result, Rewritten)
    ]
    yield "finding, reading and prefiltering them", sifting, f"{len(found) / sifting:,.0f} files/s"
    parsing, _ = timed(lambda: each(passed, lambda path: ast.parse(path.read_bytes())))
    yield f"ast.parse of the {len(passed)} that pass", parsing, ""
    rewrite_file(passed[0], Settings())  # imports are paid once
    planning, _ = timed(lambda: each(passed, plan))
    yield (
        "the model of each and its plan",
        planning,
        f"{planning / (read + parsing):.1f} x reading and ast.parse",
    )
    rewriting, results = timed(lambda: [rewrite_file(path, Settings()) for path in passed])
    rewritten = [
        path for path, one in zip(passed, results, strict=True) if one.outcome.status == "migrated"
    ]
    loops = sum(loop.status == "migrated" for one in results for loop in one.outcome.loops)
    positions, _ = timed(lambda: each(rewritten, parse_with_positions))
    yield f"LibCST with positions, the {len(rewritten)} rewritten files", positions, ""
    limit = 5 * (read + parsing) + 3 * positions
    note = (
        f"{loops / rewriting:,.0f} loops/s; limit {limit:.2f} s (5 x reading and ast.parse, 3 "
        "x LibCST)"
    )
    yield f"migrating {loops} loops in one process", rewriting, note
    peak = peak_of_worker(passed)
    command = [sys.executable, "-m", "amp_migrate", str(tree)]
    whole, _ = timed(
        lambda: subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False),
        time.perf_counter,
    )
    yield (
        "`amp-migrate tree/`, workers and writing included",
        whole,
        f"elapsed; a worker's peak {peak:,.0f} MB",
    )


def starts(plain: Path) -> Iterator[tuple[str, float, str]]:
    """Rows about the start."""
    click = start_time("-c", "import click")
    yield '`python -c "import click"`', click, ""
    for label, args in (
        ("`amp-migrate --help`", ["--help"]),
        ("`amp-migrate plain.py`", [str(plain)]),
    ):
        seconds = start_time("-m", "amp_migrate", *args)
        yield label, seconds, f"{seconds / click:.1f} x import click"


def main() -> None:
    """Print the table."""
    compile_package()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        tree.mkdir()
        make_tree(tree)
        plain = Path(folder, "plain.py")
        plain.write_text("print('no loop')\n")
        print("| What | Seconds | |\n|---|---:|---|")
        for what, seconds, note in itertools.chain(starts(plain), measure(tree)):
            print(f"| {what} | {seconds:.3f} | {note} |", flush=True)


if __name__ == "__main__":
    main()
