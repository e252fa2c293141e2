"""Writes of several files that a crash cut off: a journal beside each of them tells the next run how to finish.

A journal is locked while its writer lives, so that runs at the same time leave each other's alone. Its names are those
of files beside it or below a path from it: a copied tree heals itself and not the tree that it was copied from.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from amp_migrate.source.errors import SourceError, writing

NAME = ".amp-migrate-unfinished.json"
_HEX = re.compile(r"[0-9a-f]{64}")


class Staged(NamedTuple):
    """A file with new content, and the one beside it whose name it is to take."""

    temporary: Path
    target: Path


class Halfway(SourceError):
    """Some files have their new content and could not be put back; the journals and the rest of the files stay."""


@contextlib.contextmanager
def journal(staged: Sequence[Staged]) -> Iterator[None]:
    """While several files take their new content: what is to be renamed, in every folder that one of them is in.

    One rename alone needs no journal. Raises SourceError where none can be written, before anything is renamed.
    """
    if len(staged) < 2:
        yield
        return
    held: list[tuple[Path, int]] = []
    keep = False
    try:
        for folder in dict.fromkeys(one.target.parent for one in staged):
            held.append((folder / NAME, _written(folder / NAME, staged)))
        yield
    except Halfway:
        keep = True
        raise
    finally:
        # Not where the process is killed, and that is what the journals are for.
        for place, handle in held:
            if not keep:
                place.unlink(missing_ok=True)
            os.close(handle)


def _written(place: Path, staged: Sequence[Staged]) -> int:
    """Write the journal at `place` in one step; its open handle, which holds the lock."""
    if place.exists():
        raise SourceError(f"{place} tells of an earlier run that was cut off: see to it, then run again")
    entries = [
        {
            "new": _from(place.parent, one.temporary),
            "old": _from(place.parent, one.target),
            "from": _hash(one.target),
            "to": _hash(one.temporary),
        }
        for one in staged
    ]
    try:
        handle, temporary = tempfile.mkstemp(prefix=f"{NAME}.", suffix=".tmp", dir=place.parent)
    except OSError as error:
        raise writing(error) from None
    try:
        _locked(handle)
        with os.fdopen(os.dup(handle), "w", encoding="utf-8") as file:
            json.dump(entries, file)
        os.fsync(handle)
        os.replace(temporary, place)  # noqa: PTH105
    except BaseException as error:
        os.close(handle)
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        if isinstance(error, OSError):
            raise writing(error) from None
        raise
    return handle


def _from(folder: Path, path: Path) -> str:
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # another drive
        return str(path)


def finish(folders: Iterable[Path], write: bool = True) -> list[str]:
    """Complete what an earlier run left half-done in `folders`; what was done about it, in words.

    Without `write` nothing is touched, and it is only told. What cannot be completed stays as it is, with its journal.
    """
    told = [_finished(folder / NAME, write) for folder in dict.fromkeys(folders) if (folder / NAME).is_file()]
    return [line for line in told if line]


class _Entry(NamedTuple):
    """One file of a journal, and how far it came."""

    new: Path
    old: Path
    state: str
    """Of its content: `old`, `new`, or `changed` by somebody else."""
    ready: bool
    """Whether the new content is at hand."""

    @property
    def renamed(self) -> bool:
        """Whether the new content took the name; somebody may have gone on from there."""
        return self.state == "new" or (self.state == "changed" and not self.ready)


def _finished(place: Path, write: bool) -> str:
    try:
        with place.open("rb") as file:
            if not _locked(file.fileno()):
                return f"{place}: another run is writing these files now"
            if not os.fstat(file.fileno()).st_nlink:
                return ""  # another run has just finished
            return _healed(place, [_entry(one, place.parent) for one in json.loads(file.read())], write)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{place}: an earlier run was cut off, and its notes cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{place}: an earlier run was cut off, and its notes are damaged; compare its files, then delete it"


def _healed(place: Path, entries: Sequence[_Entry], write: bool) -> str:
    renamed = [one for one in entries if one.renamed]
    waiting = [one for one in entries if one.state != "new"] if renamed else []
    if any(one.state == "changed" or not one.ready for one in waiting):
        rewritten, rest = _names(renamed), _names(one for one in entries if not one.renamed)
        return (
            f"{place}: an earlier run was cut off between files that belong together, and they were changed since. "
            f"Rewritten: {rewritten}; not: {rest or 'none'}. Make them one again (git checkout), then delete this file"
        )
    if not write:
        told = "an earlier run was cut off while it wrote; run without --check and --diff to finish it"
        return f"{place}: {told}" if waiting else ""
    return _completed(place, entries, waiting)


def _completed(place: Path, entries: Sequence[_Entry], waiting: Sequence[_Entry]) -> str:
    """Rename what waits; where nothing was renamed yet, or all was put back, the files stay as they are."""
    try:
        for one in waiting:
            one.new.replace(one.old)
    except OSError as error:
        return f"{place}: an earlier run was cut off and cannot be finished: {writing(error)}"
    for one in entries:
        if one.ready and one not in waiting:
            one.new.unlink(missing_ok=True)
    for folder in dict.fromkeys((place.parent, *(one.old.parent for one in entries))):
        with contextlib.suppress(OSError):
            (folder / NAME).unlink(missing_ok=True)
    return f"an earlier run was cut off while it wrote; now written: {_names(waiting)}" if waiting else ""


def _entry(given: dict[str, str], folder: Path) -> _Entry:
    """Raises ValueError for what no run of ours has written: a journal may come with somebody else's project."""
    new, old = (Path(os.path.normpath(folder / given[key])) for key in ("new", "old"))
    before, after = given["from"], given["to"]
    if new.parent != old.parent or not (new.name.startswith(f".{old.name}.") and new.suffix == ".tmp"):
        raise ValueError("not a temporary file of its target")
    if not (_HEX.fullmatch(before) and _HEX.fullmatch(after)):
        raise ValueError("not a hash")
    found = _hash(old)
    state = "old" if found == before else "new" if found == after else "changed"
    return _Entry(new, old, state, not new.is_symlink() and _hash(new) == after)


def _names(entries: Iterable[_Entry]) -> str:
    return ", ".join(str(one.old) for one in entries)


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _locked(handle: int) -> bool:
    """Lock an open file for as long as it stays open; False where another process holds it."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True
