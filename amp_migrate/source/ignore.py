"""Which paths `.gitignore` files and `exclude` patterns leave out; the deepest file that says something decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@dataclass(frozen=True)
class Patterns:
    """Patterns in the language of `.gitignore`, relative to the folder `base`."""

    base: Path
    spec: GitIgnoreSpec

    def decide(self, path: Path, folder: bool) -> bool | None:
        """True: left out. False: taken back in (`!pattern`). None: not mentioned."""
        try:
            relative = path.relative_to(self.base).as_posix()
        except ValueError:
            return None
        return self.spec.check_file(relative + "/" * folder).include


def patterns(base: Path, lines: Iterable[str]) -> Patterns | None:
    """Patterns from the lines of a `.gitignore`; lines that are none are passed over, as git does."""
    from pathspec import GitIgnoreSpec

    kept = [line for line in lines if line.strip() and not line.startswith("#") and _valid(line)]
    return Patterns(base, GitIgnoreSpec.from_lines(kept)) if kept else None


def _valid(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def read(base: Path, file: Path) -> Patterns | None:
    """The patterns of one `.gitignore` file, relative to `base`; None where there are none."""
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return patterns(base, text.splitlines())


def above(folder: Path) -> tuple[Patterns, ...]:
    """The patterns that a repository's upper folders set for `folder`, outermost first; none outside a repository."""
    root = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)
    if root is None or root == folder:
        return present([_exclude_of(root)] if root else [])
    between = [parent for parent in reversed(folder.parents) if parent.is_relative_to(root)]
    found = present([_exclude_of(root), *(_gitignore_of(parent) for parent in between)])
    # A folder that is named on the command line is wanted, even if git ignores it.
    return () if left_out(folder, True, found) else found


def _exclude_of(root: Path) -> Patterns | None:
    file = root / ".git" / "info" / "exclude"
    return read(root, file) if file.is_file() else None


def _gitignore_of(folder: Path) -> Patterns | None:
    file = folder / ".gitignore"
    return read(folder, file) if file.is_file() else None


def present(found: Iterable[Patterns | None]) -> tuple[Patterns, ...]:
    """Those that are not None."""
    return tuple(one for one in found if one is not None)


def left_out(path: Path, folder: bool, rules: Sequence[Patterns]) -> bool:
    """Tell whether `rules`, outermost first, leave `path` out."""
    for one in reversed(rules):
        decision = one.decide(path, folder)
        if decision is not None:
            return decision
    return False
