"""The shape of the package: how long its parts may be, and who may walk a syntax tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

from tests.bench import bench_density

ROOT = Path(__file__).parent.parent / "amp_migrate"
MODULES = sorted(ROOT.rglob("*.py"))
LONGEST_MODULE, LONGEST_FUNCTION = 400, 40
DENSEST = 9
# Walks belong into the model; the writer edits trees, and a proof takes AMP out of one.
WALKERS = ("model/", "rewrite/", "apex/erase.py", "apex/normal.py")
WALK = re.compile(r"\bast\.(walk|iter_child_nodes|iter_fields|NodeVisitor|NodeTransformer)\b")


def _names(found: Iterator[Path]) -> set[str]:
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_modules_are_short() -> None:
    """A module has one idea, in at most 400 lines."""
    long = (m for m in MODULES if len(m.read_text().splitlines()) > LONGEST_MODULE)
    assert _names(long) == set()


@pytest.mark.parametrize("package", sorted({m.relative_to(ROOT).parts[0] for m in MODULES}))
def test_functions_are_short(package: str) -> None:
    """A function fits on a screen."""
    own = [m for m in MODULES if m.relative_to(ROOT).parts[0] == package]
    functions = (
        (module, node)
        for module in own
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    long = [
        f"{module.name}:{node.name}"
        for module, node in functions
        if (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    ]
    assert not long


def test_a_line_holds_one_thought() -> None:
    """Nodes for each line of a function, in the median: it may fall, and not rise.
    `python -m tests.bench.bench_density` tells where they are.
    """
    assert bench_density.median(bench_density.of_folder(ROOT)) <= DENSEST


def test_only_the_model_walks_trees() -> None:
    """The others ask the model's queries."""
    walking = _names(m for m in MODULES if WALK.search(m.read_text()))
    assert {name for name in walking if not name.startswith(WALKERS)} == set()


# `project.nearby` is what these ask about a file that they were not given.
ANALYSES = ("model/", "protocol/", "planner/", "checks/", "rewrite/", "apex/", "torch_facts/")
READS = re.compile(
    r"regular_files|\b(open|scandir|stat|lstat|listdir)\(|"
    r"\.(read_bytes|read_text|glob|rglob|iterdir|stat|exists)\("
)


def test_no_analysis_reads_the_disk_by_itself() -> None:
    """One reader: its bounds (regular files, of some size, so many) hold for all who ask."""
    reading = _names(m for m in MODULES if READS.search(m.read_text()))
    assert {name for name in reading if name.startswith(ANALYSES)} == set()


# What is imported only when it is needed, so that a start stays fast: what leads to LibCST or
# torch, the commands, the formats of a report, what every run of pytest loads, and the planner where
# lint asks it.
LAZY = (
    "apex/",
    "checks/",
    "cli/",
    "pipeline/",
    "project/",
    "report/",
    "runtime/",
    "codemod.py",
    "pytest_plugin.py",
)
MOST_LAZY = 67


def test_few_imports_are_hidden() -> None:
    """The model, the planner and the proof import at the top, so that no cycle hides."""
    hidden = [
        module.relative_to(ROOT).as_posix()
        for module in MODULES
        for function in ast.walk(ast.parse(module.read_text()))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("amp_migrate")
    ]
    assert {name for name in hidden if not name.startswith(LAZY)} == set()
    assert len(hidden) <= MOST_LAZY


def test_no_modules_import_each_other() -> None:
    """No circle of imports, those in functions included; what is imported for a type checker alone
    is no import.
    """
    graph = grimp.build_graph("amp_migrate", exclude_type_checking_imports=True, cache_dir=None)
    left = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    while done := {one for one, imported in left.items() if not imported & left.keys()}:
        left = {one: imported for one, imported in left.items() if one not in done}
    assert not sorted(left)  # these are in a circle, or import one


def test_a_plain_file_is_linted_without_the_model(tmp_path: Path) -> None:
    """Most files of a commit hold no word of AMP: a hook on them costs little more than click."""
    (tmp_path / "plain.py").write_text("x = 1\n")
    code = (
        "import sys; from amp_migrate.cli import main\n"
        "try: main(['lint', sys.argv[1]])\n"
        "except SystemExit: pass\n"
        "names = ('amp_migrate.model.program', 'amp_migrate.planner', 'libcst', 'torch')\n"
        "sys.exit(' '.join(name for name in names if name in sys.modules) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "plain.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
