"""Folders for what runs leave behind; they go with the process that made them.

One that was killed leaves its folder behind, and the next process finds and removes it. A folder is
locked while its owner lives, so that processes at the same time leave each other's alone.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from amp_migrate import regular_files
from amp_migrate.pipeline.journal import locked

PREFIX = "amp-migrate-"
_LOCK = "owner.lock"


@contextlib.contextmanager
def run_folder(prefix: str = PREFIX) -> Iterator[Path]:
    """A new folder, and those of killed processes removed. A fork does not take it along."""
    owner = os.getpid()
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    handle = _owned(folder)
    try:
        if _is_held(folder):  # else no lock tells here who lives
            _remove_leftovers(folder.parent, prefix)
        yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def own_folder() -> Path:
    """A folder for as long as this process lives."""
    held = contextlib.ExitStack()
    folder = held.enter_context(run_folder())
    atexit.register(held.close)
    return folder


def _owned(folder: Path) -> int:
    """Lock the new folder: it has a lock from the moment on that the lock has a name."""
    handle, name = tempfile.mkstemp(dir=folder)
    locked(handle)
    with contextlib.suppress(OSError):  # an open file has no new name
        Path(name).rename(folder / _LOCK)
    return handle


def _is_held(folder: Path) -> bool:
    """Whether a living process has this folder; also where nothing tells that it has none."""
    try:
        handle = regular_files.opened(folder / _LOCK, follow=False)
    except OSError:
        return True
    try:
        return not locked(handle)
    finally:
        os.close(handle)


def _remove_leftovers(where: Path, prefix: str) -> None:
    """Anybody may write there: only real folders of this user are looked at."""
    for folder in regular_files.listed(where, f"{prefix}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if own and not _is_held(folder):
                shutil.rmtree(folder, ignore_errors=True)
