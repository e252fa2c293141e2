"""What is found in a file by itself must be found in company, too: a loop that is left alone is not
migrated beside other files, unless it asked for them, and nothing that keeps it in float32 is lost.

`python -m tests.generated.company [PAIRS [SEED]]` plans pairs of programs that have nothing to do
with each other, and the programs of several files.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.pipeline.one_file import Rewritten, sift_file
from amp_migrate.pipeline.programs import Task, Together, first_look, rewrite_together
from amp_migrate.project.module_graph import Index, Project
from tests.generated.attacking import attacks
from tests.generated.places import programs
from tests.harness.cases import migrated_cases, project_cases, refused_cases

KEEPS_FLOAT = (".float()", "enabled=False", "custom_fwd")
Files = Mapping[str, str]


def singles() -> list[tuple[str, Files]]:
    """The programs of one file."""
    cases = [one for one in (*migrated_cases(), *refused_cases()) if one.settings == Settings()]
    found: list[tuple[str, Files]] = [(one.name, {"main.py": read(one.before)}) for one in cases]
    found += [(one.name, one.program.files) for one in (*programs(), *attacks())]
    return [one for one in found if len(one[1]) == 1]


def several() -> list[tuple[str, Files]]:
    """The programs of several files."""
    found: list[tuple[str, Files]] = []
    for case in project_cases():
        if case.settings == Settings():
            paths = {str(path.relative_to(case.before)): path for path in case.files()}
            found.append((case.name, {name: read(path) for name, path in paths.items()}))
    found += [(one.name, one.program.files) for one in (*programs(), *attacks())]
    return [one for one in found if len(one[1]) > 1]


def read(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def pairs(count: int, seed: int = 0) -> Iterator[tuple[str, Files]]:
    """Two programs side by side, `first.py` and `second.py`."""
    drawn = singles()
    random.Random(seed).shuffle(drawn)
    for (one, mine), (other, theirs) in zip(drawn[::2][:count], drawn[1::2], strict=False):
        (first,), (second,) = mine.values(), theirs.values()
        yield f"{one} beside {other}", {"first.py": first, "second.py": second}


def lost(files: Files) -> list[str]:
    """What is found in the files by themselves, and no longer in company."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            paths.append(path)
        project, trains = project_of(paths)
        joint = rewrite_together([str(one) for one in paths], Settings(), project).members
        return [
            f"{path.name}: {why}"
            for path in trains
            if (alone := by_itself(path, project)) is not None
            for why in less(alone, joint, str(path.resolve()))
        ]


def project_of(paths: list[Path]) -> tuple[Project, list[Path]]:
    """The files as a project, and those that train."""
    reals = {str(path.resolve()): str(path) for path in paths}
    index = Index(reals)
    for path in paths:
        index.add(str(path.resolve()), sift_file(path)[1])
    trains = [path for path in paths if "backward" in read(path)]
    return index.project(reals), trains


def by_itself(path: Path, project: Project) -> Rewritten | None:
    """What becomes of a file alone; None where it asks for the company of others."""
    real = str(path.resolve())
    look = first_look(Task((real,)), Settings(), project)
    return look.members[real] if isinstance(look, Together) else None


def less(alone: Rewritten, joint: Mapping[str, Rewritten], real: str) -> Iterator[str]:
    """What one file has alone, and no file in company."""
    left = {one.scope: one for one in alone.outcome.loops if one.status != "migrated"}
    for loop in joint[real].outcome.loops:
        if loop.status == "migrated" and loop.scope in left:
            yield f"{loop.scope} was left alone: {left[loop.scope].message}"
    if joint[real].outcome.status == "migrated":
        for word in KEEPS_FLOAT:
            before, after = added(word, alone), sum(added(word, one) for one in joint.values())
            if after < before:
                yield f"`{word}` is added {after} times instead of {before}"


def added(word: str, made: Rewritten) -> int:
    """How often a rewrite adds a word."""
    old, new = made.before or b"", made.after or b""
    return (new.count(word.encode()) - old.count(word.encode())) if new else 0


def main(arguments: list[str]) -> int:
    """Tell of each program of which something is lost."""
    count, seed = (*map(int, arguments), 100, 0)[:2]
    wrong = 0
    for name, files in (*pairs(count, seed), *several()):
        for why in lost(files):
            wrong += 1
            print(f"{name}: {why}", flush=True)
    print(f"{wrong} lost")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
