"""Files of a tree that nobody vouches for: opened without waiting, regular ones only, up to a size.

A pipe would block for ever, a device may never end, and a file of gigabytes would fill the memory.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST = 64 * 2**20
"""Bytes of a file that is read because it was named, or lies below a folder that was."""
LARGEST_NEARBY = 1_000_000
"""Bytes of a file that is read for what it tells about others: settings, requirements, imports."""
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


def opened(
    path: str | os.PathLike[str], most: int = LARGEST, follow: bool = True
) -> int:
    """Open a regular file of at most `most` bytes for reading, and return its handle.

    Raises:
        OSError: the file cannot be opened; with `errno.ENODEV` where it is no regular file, with
            `errno.EFBIG` where it is larger, with `errno.ELOOP` where it is a symbolic link and
            links are not to be followed.
    """
    handle = os.open(
        path, _FLAGS | (0 if follow else getattr(os, "O_NOFOLLOW", 0))
    )
    try:
        _check(os.fstat(handle), path, most)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check(
    found: os.stat_result, path: str | os.PathLike[str], most: int
) -> None:
    code = 0
    if not stat.S_ISREG(found.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.ENODEV
    elif found.st_size > most:
        code = errno.EFBIG
    if code:
        raise OSError(code, os.strerror(code), os.fspath(path))


def read(
    path: str | os.PathLike[str], most: int = LARGEST, follow: bool = True
) -> bytes:
    """Read a regular file of at most `most` bytes. Raises OSError, as `opened` does."""
    with os.fdopen(opened(path, most, follow), "rb") as file:
        return file.read(most)


def read_nearby(
    path: str | os.PathLike[str], most: int = LARGEST_NEARBY
) -> bytes | None:
    """The bytes of a file that is only looked at in passing; None where it cannot be read."""
    try:
        return read(path, most)
    except (OSError, ValueError):
        return None


def listed(folder: Path, pattern: str) -> list[Path]:
    """The paths in and below `folder` that match; none where it is gone, or goes meanwhile."""
    try:
        return list(folder.glob(pattern))
    except OSError:
        return []
