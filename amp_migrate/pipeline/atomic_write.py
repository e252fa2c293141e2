"""Replace a file's content in one step: another program sees the old bytes or the new ones, never
a part.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from amp_migrate import regular_files
from amp_migrate.pipeline.journal import MARK, Halfway, Staged, journal, locked
from amp_migrate.project.errors import SourceError, reading, writing


@dataclass(frozen=True)
class Change:
    """New bytes for a file, whose content must still be `expected`."""

    path: Path
    data: bytes
    expected: bytes


def replace(path: Path, data: bytes, expected: bytes) -> None:
    """Write `data` over `path`; see `replace_all`."""
    replace_all([Change(path, data, expected)])


def replace_all(changes: Sequence[Change]) -> None:
    """Write files that belong together: all of them, or none.

    A symbolic link is kept and its target replaced; mode and owner are kept. A hard link is given
    up: only the name in the path gets the new content, since the others may belong to a package
    cache. What a crash leaves half-done, `journal.finish` completes.
    Raises SourceError, with the path of the file at fault, and leaves all of them as they were;
    Halfway where not even that could be done.
    """
    targets = [change.path.resolve() for change in changes]
    staged: list[Staged] = []
    try:
        for target, change in zip(targets, changes, strict=True):
            with _told_of(change.path):
                _check(target, change.expected)
                staged.append(_staged(target, change.data))
        with journal(staged):
            _put(staged, changes)
    except Halfway:
        raise
    except BaseException:
        for one in staged:
            with contextlib.suppress(OSError):
                one.temporary.unlink()
        raise
    finally:
        for one in staged:
            _let_go(one)


def _put(staged: Sequence[Staged], changes: Sequence[Change]) -> None:
    """Rename all; where one fails, those before it get their old bytes back."""
    for position, one in enumerate(staged):
        try:
            with _told_of(changes[position].path):
                # The same call as Path.replace, but one that shows that it is atomic.
                os.replace(one.temporary, one.target)  # noqa: PTH105
        except BaseException as error:
            _put_back(staged[:position], changes, error)
            raise


def _put_back(
    staged: Sequence[Staged], changes: Sequence[Change], reason: BaseException
) -> None:
    """Give files their old bytes back, which are all staged before the first goes back: a full
    disk stops none half-way.
    """
    ready: list[Staged] = []
    try:
        for one, change in zip(staged, changes, strict=False):
            ready.append(_staged(one.target, change.expected))
        for one in ready:
            os.replace(one.temporary, one.target)  # noqa: PTH105
    except OSError as error:
        for one in ready:
            one.temporary.unlink(missing_ok=True)
        names = ", ".join(str(one.target) for one in staged)
        told = (
            f"{reason}; and {names} could not be put back ({error.strerror}), so that the "
            "others are missing"
        )
        raise Halfway(
            f"{told}. Mend the cause and run again in the same folder: that finishes it"
        ) from None
    finally:
        for one in ready:
            _let_go(one)


@contextlib.contextmanager
def _told_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        told = writing(error)
        told.path = str(path)
        raise told from None
    except SourceError as error:
        error.path = str(path)
        raise


def _check(target: Path, expected: bytes) -> None:
    try:
        mode = target.stat().st_mode
        current = regular_files.read(target)
    except OSError as error:
        raise reading(error) from None
    # The mode is asked as well: the superuser may write anything, but a read-only file was meant to
    # stay as it is.
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(
        target, os.W_OK
    ):
        raise SourceError(
            "cannot be written: it is read-only; change its mode (chmod u+w); it is unchanged"
        )
    if current != expected:
        raise SourceError(
            "another program changed it in the meantime; run again"
        )


def _staged(target: Path, data: bytes) -> Staged:
    """A file beside `target` that holds `data` and is ready to take its name.

    It stays open, and so locked, until it has the name: by that another run tells it from what a
    killed one has left behind.
    """
    handle, temporary = tempfile.mkstemp(
        prefix=f".{target.name}{MARK}", suffix=".tmp", dir=target.parent
    )
    try:
        locked(handle)
        _write(handle, data)
        _keep_owner_and_mode(handle, target.stat())
        os.fsync(handle)
    except BaseException:
        os.close(handle)
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    if os.name == "nt":  # where an open file cannot be renamed
        os.close(handle)
        return Staged(Path(temporary), target)
    return Staged(Path(temporary), target, handle)


def _let_go(one: Staged) -> None:
    if one.handle is not None:
        os.close(one.handle)


def _write(handle: int, data: bytes) -> None:
    """Write all of it, in as many parts as the system takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _keep_owner_and_mode(handle: int, old: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        # Only the superuser may give files away; for others the file becomes theirs, as with any
        # editor.
        with contextlib.suppress(OSError):
            os.fchown(handle, old.st_uid, old.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(handle, stat.S_IMODE(old.st_mode))
