"""`python -m tests.record COMMAND FOLDER`: `clone` brings the repositories into FOLDER, `check`
tells what differs from the record, `update` writes the record, `compare --against PROJECT` shows
the diffs that another checkout of this project would make differently.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections import Counter
from pathlib import Path

from tests.record.outcomes import PROJECT, Files, Outcome, changes, migrated, record, recorded
from tests.record.repositories import Repository, clone, exported, manifest


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 1 where something differs."""
    options = _options(arguments)
    different, loops = 0, Counter[str]()
    for repository in manifest(options.only):
        if options.command == "clone":
            clone(repository, options.folder)
            continue
        found = _found(repository, options.folder, PROJECT)
        if found is None:
            continue
        loops.update(_statuses(found.files))
        if options.command == "update":
            record(repository, found.files)
        elif options.command == "compare":
            different += _compared(repository, options, found)
        else:
            different += _checked(repository, found.files)
    print(", ".join(f"{status} {number}" for status, number in loops.most_common()))
    return int(different > 0)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.record", description=__doc__)
    parser.add_argument("command", choices=("clone", "check", "update", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--against", type=Path, default=PROJECT, metavar="PROJECT")
    return parser.parse_args(arguments)


def _found(repository: Repository, folder: Path, project: Path) -> Outcome | None:
    with exported(repository, folder) as files:
        if files is None:
            print(f"{repository.name}: commit {repository.commit[:10]} is not in {folder}")
            return None
        return migrated(files, project)


def _statuses(files: Files) -> list[str]:
    found = [loop.split(" ")[1] for file in files.values() for loop in file["loops"]]
    return [*found, *("failed file" for file in files.values() if file["status"] == "failed")]


def _checked(repository: Repository, files: Files) -> int:
    lines = changes(recorded(repository), files)
    if lines:
        print(f"{repository.name} @ {repository.commit[:10]}", *lines, sep="\n  ")
    return len(lines)


def _compared(repository: Repository, options: argparse.Namespace, ours: Outcome) -> int:
    theirs = _found(repository, options.folder, options.against.resolve())
    assert theirs is not None
    lines = changes(theirs.files, ours.files)
    if lines:
        print(f"{repository.name} @ {repository.commit[:10]}", *lines, sep="\n  ")
    for path in sorted(theirs.diffs.keys() | ours.diffs.keys()):
        old, new = (one.diffs.get(path, "").splitlines() for one in (theirs, ours))
        print(*difflib.unified_diff(old, new, "theirs", "ours", lineterm="", n=1), sep="\n", end="")
    return len(lines)


if __name__ == "__main__":
    sys.exit(main())
