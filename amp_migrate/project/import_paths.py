"""Which file a dotted name of an import means, from the place of the file that imports it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

_LEVELS = 6
_ROOTS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_SIGNS = ("LICENSE", "LICENSE.txt", "LICENSE.md", "README.md", "README.rst")


def resolved(path: str) -> str:
    """The path of a file without links, as files are known by; asked once for each."""
    return _resolved(os.path.abspath(path))  # noqa: PTH100 - without asking the disk


@lru_cache(maxsize=65_536)
def _resolved(path: str) -> str:
    return os.path.realpath(path)


def candidates(path: str, canonical: str) -> Iterator[tuple[str, list[str]]]:
    """Files that may be the module of a dotted name, likeliest first, with what is left of the
    name behind the module. In `utils/model.py`, `from model import Net` does not mean itself.
    """
    inner = canonical.lstrip(".")
    level = len(canonical) - len(inner)
    parts = inner.split(".")
    own = resolved(path) if level == 0 else ""
    for folder in _starts(os.path.join(os.getcwd(), path), level):  # noqa: PTH109, PTH118
        for cut in range(len(parts), 0 if not level else -1, -1):
            base = "/".join((folder, *parts[:cut]))
            if cut and not (level == 0 and f"{base}.py" == own):
                yield f"{base}.py", parts[cut:]
            yield f"{base}/__init__.py", parts[cut:]
    if level == 0:
        yield from _in_renamed(path, parts, own)


def _in_renamed(
    path: str, parts: list[str], own: str
) -> Iterator[tuple[str, list[str]]]:
    """`lib.models` in a folder that an archive calls `lib-master`, which is `lib` wherever the
    program runs.
    """
    for folder in _starts(os.path.join(os.getcwd(), path), 0):  # noqa: PTH109, PTH118
        called = os.path.basename(folder)  # noqa: PTH119 - for each name
        if called == parts[0] or parts[0] not in called:
            continue  # spares the words of most
        if parts[0] not in _words(called):
            continue
        for cut in range(len(parts), 1, -1):
            base = "/".join((folder, *parts[1:cut]))
            if f"{base}.py" != own:
                yield f"{base}.py", parts[cut:]
            yield f"{base}/__init__.py", parts[cut:]


def _words(name: str) -> list[str]:
    return re.split(r"[^0-9A-Za-z_]+", name)


@lru_cache(maxsize=4096)
def _starts(path: str, level: int) -> tuple[str, ...]:
    here = Path(path).resolve().parent
    if level == 0:
        return tuple(str(folder) for folder in absolute_starts(here))
    return (
        (str((here, *here.parents)[level - 1]),)
        if level <= len(here.parents) + 1
        else ()
    )


@lru_cache(maxsize=4096)
def absolute_starts(here: Path) -> tuple[Path, ...]:
    """Where absolute imports of a file in `here` may start: its folder and those above, up to the
    project's root.
    """
    found = []
    for folder in (here, *here.parents[:_LEVELS]):
        found.append(folder)
        if (folder / "src").is_dir():
            found.append(folder / "src")
        if any((folder / name).exists() for name in _ROOTS):
            break
    return tuple(found)


def starts_used(path: str, imported: Iterable[str]) -> list[Path]:
    """The folders in which absolute imports of a file find what they name, its own among them."""
    here = Path(path).absolute().parent
    heads = {one.partition(".")[0] for one in imported} - {""}
    asked = sorted(heads.difference(sys.stdlib_module_names))
    above = (
        folder
        for folder in absolute_starts(here)
        if any(_is_module(folder, head) for head in asked)
    )
    return list(dict.fromkeys((here, *above)))


def _is_module(folder: Path, head: str) -> bool:
    """Whether a folder holds a module, or a folder of modules, of some name."""
    inner = str(folder / head)
    return (folder / f"{head}.py").is_file() or any(
        entry.name.endswith(".py") for entry in _entries(inner)
    )


def in_subfolders(path: str, canonical: str) -> list[tuple[str, list[str]]]:
    """The same as `candidates`, where the one folder below the project's root that holds the head
    of an absolute name is on the search path, as `lib/` is after `import _init_paths`.
    """
    head = canonical.partition(".")[0]
    if not head or head in sys.stdlib_module_names:
        return []
    top = _root_above(os.path.dirname(resolved(path)))  # noqa: PTH120 - asked for each name
    holders = _holders(top).get(head, ())
    if len(holders) != 1:
        return []
    parts = canonical.split(".")
    found: list[tuple[str, list[str]]] = []
    for cut in range(len(parts), 0, -1):
        base = "/".join((holders[0], *parts[:cut]))
        found += [
            (f"{base}.py", parts[cut:]),
            (f"{base}/__init__.py", parts[cut:]),
        ]
    return found


@lru_cache(maxsize=4096)
def _root_above(folder: str) -> str:
    """The root of the project that a folder lies in, where it shows itself as one; in an archive
    that was unpacked, the folder with its README or licence, else the folder itself.
    """
    starts = absolute_starts(Path(folder))
    top = starts[-1]
    if any((top / name).exists() for name in _ROOTS):
        return str(top)
    signed = (one for one in starts if _is_signed(one))
    return str(next(signed, folder))


def _is_signed(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _SIGNS)


@lru_cache(maxsize=64)
def _holders(top: str) -> dict[str, tuple[str, ...]]:
    """Which folders right below `top` hold a module or package of each name."""
    found: dict[str, list[str]] = {}
    for folder in _folders(top)[:_MOST]:
        for entry in _entries(folder)[:_MOST]:
            name = (
                entry.name.removesuffix(".py")
                if entry.name.endswith(".py")
                else entry.name
            )
            if name.isidentifier():
                found.setdefault(name, []).append(folder)
    return {
        name: tuple(dict.fromkeys(folders)) for name, folders in found.items()
    }


def _folders(top: str) -> list[str]:
    entries = (e for e in _entries(top) if e.is_dir(follow_symlinks=False))
    return [e.path for e in entries if not e.name.startswith(".")]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


_MOST = 500


def by_search_path(
    path: str, canonical: str, known: Iterable[str]
) -> tuple[str, list[str]] | None:
    """The one file of `known` that an absolute import means if its folder is on the search path, as
    with `lib/` put there.

    Asked only where `candidates` leads nowhere. None where there are several, or where the name is
    Python's own.
    """
    parts = canonical.split(".")
    if canonical.startswith(".") or parts[0] in sys.stdlib_module_names:
        return None
    top = f"{absolute_starts(Path(resolved(path)).parent)[-1]}/".replace(
        "//", "/"
    )
    files = [file for file in known if file.startswith(top)]
    for cut in range(len(parts), 0, -1):
        inner = "/".join(parts[:cut])
        found = [file for file in files if file.endswith(f"/{inner}.py")]
        found = found or [
            file for file in files if file.endswith(f"/{inner}/__init__.py")
        ]
        if found:
            return (found[0], parts[cut:]) if len(found) == 1 else None
    return None
