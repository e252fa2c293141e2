"""Writes of several files that a crash cut off: a journal tells the next run how to finish them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

NAME = ".amp-migrate-unfinished.json"
_LEVELS = 8


@contextlib.contextmanager
def journal(staged: Sequence[tuple[str, Path]]) -> Iterator[None]:
    """While several files take their new content: what is to be renamed, in the folder above them all.

    `staged`: the file with the new content, and the one that it replaces. One rename alone needs no journal.
    """
    if len(staged) < 2:
        yield
        return
    place = Path(os.path.commonpath([target.parent for _, target in staged])) / NAME
    entries = [{"new": new, "old": str(old), "sha256": _hash(old)} for new, old in staged]
    place.write_text(json.dumps(entries), encoding="utf-8")
    try:
        yield
    finally:
        # Not where the process is killed, and that is what the journal is for.
        place.unlink(missing_ok=True)


def finish(paths: Iterable[Path]) -> list[str]:
    """Complete what an earlier run at or above `paths` left half-done; what was done about it, in words."""
    told: list[str] = []
    for folder in dict.fromkeys(_folders(paths)):
        place = folder / NAME
        if place.is_file():
            told += _finished(place)
    return told


def _folders(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        here = path.resolve()
        start = here if here.is_dir() else here.parent
        yield from (start, *start.parents[:_LEVELS])


def _finished(place: Path) -> Iterator[str]:
    try:
        entries = [(Path(e["new"]), Path(e["old"]), e["sha256"]) for e in json.loads(place.read_text(encoding="utf-8"))]
    except (OSError, ValueError, KeyError, TypeError):
        yield f"{place}: an unfinished write of an earlier run cannot be read; check its files, then delete it"
        return
    changed = [old for new, old, digest in entries if new.is_file() and _hash(old) != digest]
    if changed:
        yield f"{changed[0]}: changed since an earlier run was cut off; check the files in {place}, then delete it"
        return
    waiting = [(new, old) for new, old, _ in entries if new.is_file()]
    for new, old in waiting:
        new.replace(old)
    place.unlink()
    names = ", ".join(str(old) for _, old in waiting)
    yield (
        f"an earlier run was cut off while it wrote; now written: {names}"
        if names
        else f"{place}: nothing was left to do"
    )


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
