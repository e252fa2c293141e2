"""How many AMP mistakes planted in real code lint finds.

`python -m tests.bench.lint_mutants FOLDER...` takes each line of the files below that updates a
scaler, unscales, steps with it or scales a loss, changes that one line into a mistake, lints the
file with its neighbours in place and counts the mutants with a new finding of severity error.
`--missed` lists the others with their lines.

An `unscale_` counts only where the same function reads the gradients behind it: without a reader it
is merely redundant.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint.engine import lint
from amp_migrate.project.discovery import discover
from tests.bench.checkouts import table

_SCALER = r"(?P<scaler>[\w.\[\]\"']*scaler[\w.\[\]\"']*)"
KINDS = {
    "update lost": (re.compile(_SCALER + r"\.update\(\)$"), "pass"),
    "unscale_ lost": (re.compile(_SCALER + r"\.unscale_\(.*\)$"), "pass"),
    "step past the scaler": (
        re.compile(_SCALER + r"\.step\((?:optimizer=)?(?P<what>[^(),]+)\)$"),
        r"\g<what>.step()",
    ),
    "loss not scaled": (
        re.compile(_SCALER + r"\.scale\((?P<what>.+)\)\.backward\("),
        r"(\g<what>).backward(",
    ),
    "update doubled": (
        re.compile(r"(?P<line>" + _SCALER + r"\.update\(\))$"),
        r"\g<line>; \g<line>",
    ),
    "unscale_ doubled": (
        re.compile(r"(?P<line>" + _SCALER + r"\.unscale_\(.*\))$"),
        r"\g<line>; \g<line>",
    ),
}
_READS = re.compile(r"clip_?grad|grad_?norm|\.grad\b|clip_.*grad|clip_gradients")


@dataclass(frozen=True)
class Mutant:
    """One line of a file, changed into a mistake."""

    path: Path
    kind: str
    line: int
    was: str
    found: bool


def main(args: Sequence[str] | None = None) -> None:
    """Print the table, and the missed mutants where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--missed", action="store_true", help="list the mutants that were not found"
    )
    ours = parser.parse_args(args)
    results = [mutant for found in discover(ours.folders, []) for mutant in mutants(found.path)]
    planted = Counter(mutant.kind for mutant in results)
    seen = Counter(mutant.kind for mutant in results if mutant.found)
    rows = [(kind, planted[kind], seen[kind], share(seen[kind], planted[kind])) for kind in KINDS]
    rows.append(("all", planted.total(), seen.total(), share(seen.total(), planted.total())))
    print(*table(("Mistake", "Planted", "Found", ""), rows), sep="\n")
    print(f"\n{len({mutant.path for mutant in results})} files.")
    for mutant in results if ours.missed else ():
        if not mutant.found:
            print(f"{mutant.path}:{mutant.line}: {mutant.kind}: {mutant.was}")


def share(part: int, whole: int) -> str:
    """A percentage."""
    return f"{part / whole:.0%}" if whole else ""


def mutants(path: Path) -> Iterator[Mutant]:
    """Each mistake that can be planted in a file, and whether it is found."""
    if path.suffix != ".py":
        return
    text = path.read_bytes().decode("utf-8-sig", "replace")
    if "caler" not in text or ".backward(" not in text and ".update(" not in text:
        return
    lines = text.splitlines(keepends=True)
    before: Counter[str] | None = None
    for number, kind, changed in planted_in(lines):
        before = errors(text, path) if before is None else before
        mutant = "".join([*lines[: number - 1], changed, *lines[number:]])
        yield Mutant(
            path, kind, number, lines[number - 1].strip(), bool(errors(mutant, path) - before)
        )


def planted_in(lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Line numbers with the kind of mistake and the changed line."""
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        for kind, (pattern, replacement) in KINDS.items():
            found = pattern.search(bare) if kind == "loss not scaled" else pattern.fullmatch(bare)
            if found and (kind != "unscale_ lost" or _is_read(lines, number)):
                yield number, kind, line.replace(bare, pattern.sub(replacement, bare))


def _is_read(lines: Sequence[str], number: int) -> bool:
    """Whether gradients are read between this line and the step behind it."""
    for line in lines[number : number + 40]:
        if _READS.search(line) and not line.lstrip().startswith("#"):
            return True
        if re.search(r"scaler[\w.]*\.step\(|^\s*(def|class)\s", line):
            return False
    return False


def errors(text: str, path: Path) -> Counter[str]:
    """Rules of severity error (and reads of scaled gradients) by how often they are broken."""
    found = lint(text, str(path), Settings()).findings
    return Counter(
        one.rule
        for one in found
        if one.severity == "error" or one.rule == "grad-read-before-unscale"
    )


if __name__ == "__main__":
    main()
