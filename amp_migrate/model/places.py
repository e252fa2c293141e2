"""Which file a dotted name of an import means, from the place of the file that imports it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

_LEVELS = 6
_ROOTS = (".git", "pyproject.toml", "setup.py", "setup.cfg")


def candidates(path: str, canonical: str) -> Iterator[tuple[str, list[str]]]:
    """Files that may be the module of a dotted name, likeliest first, with what is left of the name behind the module."""
    inner = canonical.lstrip(".")
    level = len(canonical) - len(inner)
    parts = inner.split(".")
    for folder in _starts(str(Path(path).absolute()), level):
        for cut in range(len(parts), 0 if not level else -1, -1):
            base = "/".join((folder, *parts[:cut]))
            if cut:
                yield f"{base}.py", parts[cut:]
            yield f"{base}/__init__.py", parts[cut:]


@lru_cache(maxsize=4096)
def _starts(path: str, level: int) -> tuple[str, ...]:
    here = Path(path).resolve().parent
    if level == 0:
        return tuple(str(folder) for folder in absolute_starts(here))
    return (str((here, *here.parents)[level - 1]),) if level <= len(here.parents) + 1 else ()


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


def by_search_path(path: str, canonical: str, known: Iterable[str]) -> tuple[str, list[str]] | None:
    """The one file of `known` that an absolute import means if its folder is on the search path, as with `lib/` put there.

    Asked only where `candidates` leads nowhere. None where there are several, or where the name is Python's own.
    """
    parts = canonical.split(".")
    if canonical.startswith(".") or parts[0] in sys.stdlib_module_names:
        return None
    top = f"{absolute_starts(Path(path).resolve().parent)[-1]}/".replace("//", "/")
    files = [file for file in known if file.startswith(top)]
    for cut in range(len(parts), 0, -1):
        inner = "/".join(parts[:cut])
        found = [file for file in files if file.endswith(f"/{inner}.py")]
        found = found or [file for file in files if file.endswith(f"/{inner}/__init__.py")]
        if found:
            return (found[0], parts[cut:]) if len(found) == 1 else None
    return None
