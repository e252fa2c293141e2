"""From the paths on the command line to the files behind them, each once and in a stable order."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from amp_migrate.project import gitignore
from amp_migrate.project.errors import SourceError, reading
from amp_migrate.project.gitignore import Patterns
from amp_migrate.records import NamedTuple
from amp_migrate.regular_files import listed

SUFFIXES = (".py", ".ipynb")
_MOST_FOLDERS = 200
_MOST_NEAR = 300
# Other people's code, and what tools generate.
SKIPPED_FOLDERS = frozenset(
    """
    .bzr .direnv .eggs .git .hg .hypothesis .ipynb_checkpoints .mypy_cache .nox .pytest_cache
    .pytype .ruff_cache .svn
    .tox .venv __pycache__ __pypackages__ _build build dist node_modules site-packages venv
    """.split()
)


class Found(NamedTuple):
    """One file: the name to show and to open, and the one without links; `error` where it is none
    that can be read.
    """

    path: Path
    real: str
    error: SourceError | None = None


def discover(
    paths: Sequence[Path], excludes: Iterable[tuple[Path, Sequence[str]]] = ()
) -> Iterator[Found]:
    """Find the modules and notebooks at and below `paths`.

    Files that are named are always taken; below a folder, `.gitignore` files, `excludes` (patterns
    with the folder that they are relative to) and other people's code are left out, and so are
    symbolic links that lead out of the folder. Folders that cannot be read come out as errors.
    """
    rules = _excludes(excludes)
    seen: set[str] = set()
    for path in paths:
        for found in _below(path, rules) if path.is_dir() else [_named(path)]:
            if found.real not in seen:
                seen.add(found.real)
                yield found


def surroundings(files: Iterable[str], known: Collection[str]) -> list[str]:
    """Modules beside, above and below the folders of `files` (resolved) that are not `known`, for
    what they import.

    In a large tree only what lies around it is looked for, since what lies in it is known.
    """
    folders = {file.rpartition("/")[0] for file in files}
    if len(folders) > _MOST_FOLDERS:
        folders = set(
            sorted(_outermost({file.rpartition("/")[0] for file in known}))[
                :_MOST_FOLDERS
            ]
        )
    near = dict.fromkeys(
        str(path)
        for folder in map(Path, sorted(folders))
        for pattern, start in (
            ("*", folder),
            ("*", folder.parent),
            ("*/*", folder),
        )
        for suffix in SUFFIXES
        for path in sorted(listed(start, pattern + suffix))[:_MOST_NEAR]
    )
    return [path for path in near if path not in known]


def _outermost(folders: Collection[str]) -> Iterator[str]:
    for folder in folders:
        if not any(str(parent) in folders for parent in Path(folder).parents):
            yield folder


def _excludes(
    excludes: Iterable[tuple[Path, Sequence[str]]],
) -> tuple[Patterns, ...]:
    return gitignore.present(
        gitignore.patterns(base.resolve(), lines)
        for base, lines in excludes
        if lines
    )


def _named(path: Path) -> Found:
    real = os.path.realpath(path)
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        return Found(path, real, reading(error))
    if not regular:
        return Found(
            path,
            real,
            SourceError("not a regular file; to read from a pipe, name it -"),
        )
    return Found(path, real)


def _below(folder: Path, excludes: tuple[Patterns, ...]) -> Iterator[Found]:
    root = folder.resolve()
    if any(one.covers(root, True) for one in excludes):
        return
    yield from _Walk(root, excludes).walk(folder, root, gitignore.above(root))


class _Walk(NamedTuple):
    """The walk below one folder; `root` is resolved, and every path is carried as shown and as
    resolved.
    """

    root: Path
    excludes: tuple[Patterns, ...]

    def walk(
        self, shown: Path, folder: Path, rules: tuple[Patterns, ...]
    ) -> Iterator[Found]:
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            yield Found(shown, str(folder), reading(error))
            return
        names = {entry.name for entry in entries}
        if "pyvenv.cfg" in names and folder != self.root:
            return
        if ".gitignore" in names:
            rules = _with_gitignore(folder, rules)
        for entry in entries:
            yield from self._entry(
                entry, shown / entry.name, folder / entry.name, rules
            )

    def _entry(
        self,
        entry: os.DirEntry[str],
        shown: Path,
        path: Path,
        rules: tuple[Patterns, ...],
    ) -> Iterator[Found]:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in SKIPPED_FOLDERS and not self._left_out(
                path, True, rules
            ):
                yield from self.walk(shown, path, rules)
        elif (
            entry.name.endswith(SUFFIXES)
            and self._inside(entry, path)
            and not self._left_out(path, False, rules)
        ):
            yield Found(
                shown,
                os.path.realpath(path) if entry.is_symlink() else str(path),
            )

    def _inside(self, entry: os.DirEntry[str], path: Path) -> bool:
        """A regular file below the root; editors leave dangling links, and a link out leads to
        what nobody named.
        """
        try:
            return entry.is_file() and (
                not entry.is_symlink()
                or path.resolve().is_relative_to(self.root)
            )
        except (OSError, RuntimeError):
            return False

    def _left_out(
        self, path: Path, folder: bool, rules: tuple[Patterns, ...]
    ) -> bool:
        return gitignore.left_out(path, folder, rules) or any(
            one.decide(path, folder) for one in self.excludes
        )


def _with_gitignore(
    folder: Path, rules: tuple[Patterns, ...]
) -> tuple[Patterns, ...]:
    return (
        *rules,
        *gitignore.present([gitignore.read(folder, folder / ".gitignore")]),
    )
