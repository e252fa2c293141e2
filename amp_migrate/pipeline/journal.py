"""Writes of several files that a crash cut off: a journal beside each of them tells the next run
how to finish.

A journal is locked while its writer lives, so that runs at the same time leave each other's alone.
Its names are those of files beside it or below a path from it: a copied tree heals itself and not
the tree that it was copied from. A journal may come with somebody else's project: it reaches
regular files below the folders that were named, and none through a link.
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

from amp_migrate import regular_files
from amp_migrate.display import shown
from amp_migrate.project.errors import SourceError, writing
from amp_migrate.records import NamedTuple

NAME = ".amp-migrate-unfinished.json"
MARK = ".amp-migrate-"
"""What stands in the name of every temporary file, between that of its target and a random part."""
_LARGEST = 4 * 2**20
_LEFTOVER = re.compile(
    rf"\..+{re.escape(MARK)}\w{{8}}\.tmp|{re.escape(NAME)}\.\w{{8}}\.tmp"
)
_HEX = re.compile(r"[0-9a-f]{64}")


class Staged(NamedTuple):
    """A file with new content, and the one beside it whose name it is to take."""

    temporary: Path
    target: Path
    handle: int | None = None
    """Of the temporary file, which is locked for as long as it is open."""


class _ElsewhereError(ValueError):
    """A journal names a file outside of the folders that it may reach."""


class Halfway(SourceError):
    """Some files have their new content and could not be put back; the journals and the rest of
    the files stay.
    """


@contextlib.contextmanager
def journal(staged: Sequence[Staged]) -> Iterator[None]:
    """While several files take their new content: what is to be renamed, in every folder that one
    of them is in.

    One rename alone needs no journal. Raises SourceError where none can be written, before anything
    is renamed.
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
        raise SourceError(
            f"{place} tells of an earlier run that was cut off: see to it, then run again"
        )
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
        handle, temporary = tempfile.mkstemp(
            prefix=f"{NAME}.", suffix=".tmp", dir=place.parent
        )
    except OSError as error:
        raise writing(error) from None
    try:
        locked(handle)
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


def finish(
    folders: Iterable[Path],
    write: bool = True,
    roots: Sequence[Path] | None = None,
) -> list[str]:
    """Complete what an earlier run left half-done in `folders`; what was done about it, in words.

    Without `write` nothing is touched, and it is only told. What cannot be completed stays as it
    is, with its journal. Temporary files that nobody will give a name any more are removed.
    `roots` are the folders below which files may be written; `folders` themselves by default.
    """
    own = list(dict.fromkeys(folder.resolve() for folder in folders))
    allowed = [root.resolve() for root in roots] if roots is not None else own
    told: list[str] = []
    for folder in own:
        names = _names_in(folder)
        if NAME in names:
            told.append(_finished(folder / NAME, write, allowed))
        if write and not os.path.lexists(folder / NAME):
            _remove_leftovers(folder, names)
    return [line for line in told if line]


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def _remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Remove temporary files whose writer is gone."""
    for name in names:
        if _LEFTOVER.fullmatch(name):
            with contextlib.suppress(OSError):
                handle = regular_files.opened(folder / name, follow=False)
                try:
                    if locked(handle):
                        (folder / name).unlink()
                finally:
                    os.close(handle)


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
        return self.state == "new" or (
            self.state == "changed" and not self.ready
        )


def _finished(place: Path, write: bool, roots: Sequence[Path]) -> str:
    name = shown(place)
    try:
        with os.fdopen(
            regular_files.opened(place, _LARGEST, follow=False), "rb"
        ) as file:
            if not locked(file.fileno()):
                return f"{name}: another run is writing these files now"
            if not os.fstat(file.fileno()).st_nlink:
                return ""  # another run has just finished
            given = json.loads(file.read(_LARGEST))
            return _healed(
                place,
                [_entry(one, place.parent, roots) for one in given],
                write,
            )
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{name}: an earlier run was cut off, and its notes cannot be read: {error.strerror}"
    except _ElsewhereError as error:
        return (
            f"{name}: an earlier run was cut off, and it also wrote {shown(str(error))}: name a "
            "folder that holds both"
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return (
            f"{name}: an earlier run was cut off, and its notes are damaged; compare its "
            "files, then delete it"
        )


def _healed(place: Path, entries: Sequence[_Entry], write: bool) -> str:
    renamed = [one for one in entries if one.renamed]
    waiting = [one for one in entries if one.state != "new"] if renamed else []
    if any(one.state == "changed" or not one.ready for one in waiting):
        rewritten, rest = (
            _names(renamed),
            _names(one for one in entries if not one.renamed),
        )
        return (
            f"{shown(place)}: an earlier run was cut off between files that belong together, and "
            "they "
            "were changed since. "
            f"Rewritten: {rewritten}; not: {rest or 'none'}. Make them one again (git checkout), "
            "then delete this file"
        )
    if not write:
        told = (
            "an earlier run was cut off while it wrote; run without --check "
            "and --diff to finish it"
        )
        return f"{shown(place)}: {told}" if waiting else ""
    return _completed(place, entries, waiting)


def _completed(
    place: Path, entries: Sequence[_Entry], waiting: Sequence[_Entry]
) -> str:
    """Rename what waits; where nothing was renamed yet, or all was put back, the files stay as
    they are.
    """
    try:
        for one in waiting:
            one.new.replace(one.old)
    except OSError as error:
        return (
            f"{shown(place)}: an earlier run was cut off and cannot be "
            f"finished: {writing(error)}"
        )
    for one in entries:
        if one.ready and one not in waiting:
            one.new.unlink(missing_ok=True)
    for folder in dict.fromkeys(
        (place.parent, *(one.old.parent for one in entries))
    ):
        with contextlib.suppress(OSError):
            (folder / NAME).unlink(missing_ok=True)
    return (
        f"an earlier run was cut off while it wrote; now written: {_names(waiting)}"
        if waiting
        else ""
    )


def _entry(
    given: dict[str, str], folder: Path, roots: Sequence[Path]
) -> _Entry:
    """Raises ValueError for what no run of ours has written: a journal may come with somebody
    else's project.
    """
    new, old = (
        Path(os.path.normpath(folder / given[key])) for key in ("new", "old")
    )
    if old.is_symlink() or old.parent.resolve() != old.parent:
        raise ValueError("through a link")
    if not any(old.is_relative_to(root) for root in roots):
        raise _ElsewhereError(str(old))
    before, after = given["from"], given["to"]
    if new.parent != old.parent or not (
        new.name.startswith(f".{old.name}.") and new.suffix == ".tmp"
    ):
        raise ValueError("not a temporary file of its target")
    if not (_HEX.fullmatch(before) and _HEX.fullmatch(after)):
        raise ValueError("not a hash")
    found = _hash(old)
    state = "old" if found == before else "new" if found == after else "changed"
    return _Entry(new, old, state, not new.is_symlink() and _hash(new) == after)


def _names(entries: Iterable[_Entry]) -> str:
    return ", ".join(shown(one.old) for one in entries)


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(
            regular_files.read(path, follow=False)
        ).hexdigest()
    except OSError:
        return ""


def locked(handle: int) -> bool:
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
