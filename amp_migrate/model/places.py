"""Which file a dotted name of an import means, from the place of the file that imports it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_LEVELS = 6
_ROOTS = (".git", "pyproject.toml", "setup.py", "setup.cfg")


def candidates(path: str, canonical: str) -> Iterator[tuple[str, list[str]]]:
    """Files that may be the module of a dotted name, likeliest first, with what is left of the name behind the module."""
    level = len(canonical) - len(canonical.lstrip("."))
    parts = canonical.lstrip(".").split(".")
    here = Path(path).resolve().parent
    if level > len(here.parents) + 1:
        return
    folders = (here.parents[level - 2] if level > 1 else here,) if level else absolute_starts(here)
    for folder in folders:
        for cut in range(len(parts), 0 if not level else -1, -1):
            base = folder.joinpath(*parts[:cut])
            if cut:
                yield f"{base}.py", parts[cut:]
            yield f"{base}/__init__.py", parts[cut:]


@lru_cache(maxsize=4096)
def absolute_starts(here: Path) -> tuple[Path, ...]:
    """Where absolute imports of a file in `here` may start: its folder and those above, up to the project's root."""
    found = []
    for folder in (here, *here.parents[:_LEVELS]):
        found.append(folder)
        if (folder / "src").is_dir():
            found.append(folder / "src")
        if any((folder / name).exists() for name in _ROOTS):
            break
    return tuple(found)
