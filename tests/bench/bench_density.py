"""How much stands on a line: nodes of the syntax tree (`ast.walk`) for each line of a function that
is not blank, docstrings and comments counted as they are.

`python -m tests.bench.bench_density [FOLDER...]` prints the median over the functions of each folder
(the package, where none is named), of its parts, and the densest modules.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "amp_migrate"
MANY = 10


def densities(module: Path) -> Iterator[float]:
    """Of each function of a module, the nested ones as well."""
    lines = module.read_text().splitlines()
    for node in ast.walk(ast.parse(module.read_bytes())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = [line for line in lines[node.lineno - 1 : node.end_lineno] if line.strip()]
            yield sum(1 for _ in ast.walk(node)) / len(own)


def of_folder(folder: Path) -> dict[Path, list[float]]:
    """Those of each module that has functions."""
    found = {module: list(densities(module)) for module in sorted(folder.rglob("*.py"))}
    return {module: own for module, own in found.items() if own}


def median(modules: dict[Path, list[float]]) -> float:
    """That of all functions, each counted once."""
    return statistics.median(one for own in modules.values() for one in own)


def table(folder: Path) -> Iterator[str]:
    """What is printed about a folder."""
    modules = of_folder(folder)
    yield f"{folder.name}: {median(modules):.2f} nodes a line in the median of its functions"
    parts: dict[str, dict[Path, list[float]]] = {}
    for module, own in modules.items():
        parts.setdefault(module.relative_to(folder).parts[0], {})[module] = own
    yield from (f"  {name}: {median(own):.1f}" for name, own in parts.items() if len(own) > 1)
    yield "the densest modules:"
    densest = sorted(modules, key=lambda module: -statistics.median(modules[module]))
    for module in densest[:MANY]:
        yield f"  {module.relative_to(folder)}: {statistics.median(modules[module]):.1f}"


def main(args: list[str]) -> None:
    """Print the tables."""
    for folder in map(Path, args or [str(ROOT)]):
        print("\n".join(table(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
