"""Replace a file's content in one step: another program sees the old bytes or the new ones, never a part."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from amp_migrate.source.errors import SourceError, reading, writing


def replace(path: Path, data: bytes, expected: bytes) -> None:
    """Write `data` over `path`, whose content must still be `expected`.

    A symbolic link is kept and its target replaced; mode and owner are kept. A hard link is given up: only the name in
    `path` gets the new content, since the others may belong to a package cache.
    Raises SourceError, and leaves the file as it was, where it cannot be replaced.
    """
    target = path.resolve()
    _check(target, expected)
    try:
        _replace(target, data)
    except OSError as error:
        raise writing(error) from None


def _check(target: Path, expected: bytes) -> None:
    try:
        mode = target.stat().st_mode
        current = target.read_bytes()
    except OSError as error:
        raise reading(error) from None
    # The mode is asked as well: the superuser may write anything, but a read-only file was meant to stay as it is.
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(target, os.W_OK):
        raise SourceError("cannot be written: it is read-only; change its mode (chmod u+w); it is unchanged")
    if current != expected:
        raise SourceError("another program changed it in the meantime; run again")


def _replace(target: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        try:
            _write(handle, data)
            _keep_owner_and_mode(handle, target.stat())
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(temporary, target)  # noqa: PTH105 - the same call, but one that shows it is atomic
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _keep_owner_and_mode(handle: int, old: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        # Only the superuser may give files away; for others the file becomes theirs, as with any editor.
        with contextlib.suppress(OSError):
            os.fchown(handle, old.st_uid, old.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(handle, stat.S_IMODE(old.st_mode))
