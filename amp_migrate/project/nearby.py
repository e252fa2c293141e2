"""Files beside one that is analysed: all that the model, the protocol and the planner ever ask of a
disk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_migrate.regular_files import listed, read_nearby

_MOST = 300
_MOST_BYTES = 8_000_000


def changed(file: str) -> int | None:
    """When a file was written last; None where there is none. Asked for every import of every
    file, hence without a `Path`.
    """
    try:
        found = os.stat(file)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else None


class _Texts:
    """What files hold, as long as they are what they were when they were read: their sizes, times
    and numbers say so. Each program asks for the files around it many times.
    """

    def __init__(self, most: int) -> None:
        """`most`: how many bytes are held."""
        self._most = self._left = most
        self._held: dict[str, tuple[tuple[int, ...], bytes]] = {}

    def of(self, file: str) -> bytes | None:
        """What a file holds; None where it cannot be read."""
        try:
            now = os.stat(file)  # noqa: PTH116
        except (OSError, ValueError):
            return None
        sign = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)
        held = self._held.get(file)
        if held is not None and held[0] == sign:
            return held[1]
        text = read_nearby(file)
        if text is not None:
            self._keep(file, sign, text)
        return text

    def _keep(self, file: str, sign: tuple[int, ...], text: bytes) -> None:
        self._left -= len(text)
        if self._left < 0:
            self._held.clear()
            self._left = self._most - len(text)
        self._held[file] = sign, text


_TEXTS = _Texts(_MOST_BYTES)


def text_of(file: str | Path) -> bytes | None:
    """What a file holds; None where it cannot be read."""
    return _TEXTS.of(os.fspath(file))


def beside(
    here: Path, *, cousins: bool = False
) -> Iterator[tuple[Path, bytes]]:
    """The Python files in the folder of `here`, below it and above it, with what they hold; with
    `cousins`, those in the folders beside it, too. None where `here` is not on disk.
    """
    if not here.is_file():
        return
    folder = here.parent
    near = [
        *listed(folder, "*.py"),
        *listed(folder.parent, "*.py"),
        *listed(folder, "*/*.py"),
    ]
    near += listed(folder.parent, "*/*.py") if cousins else ()
    for file in list(dict.fromkeys(near))[:_MOST]:
        if file != here:
            yield file, text_of(file) or b""


def below(root: Path) -> Iterator[tuple[Path, bytes]]:
    """The Python files in a folder and two levels below it, with what they hold."""
    for file in _some(root, ("*.py", "*/*.py", "*/*/*.py")):
        yield file, text_of(file) or b""


def settings_below(root: Path) -> Iterator[bytes]:
    """What the settings files hold that lie in a folder, and in its folders of settings."""
    inner = ("", "conf*/", "conf*/*/", "cfg*/", "option*/")
    for file in _some(root, [f"{one}*.*" for one in inner]):
        if file.suffix in _SETTINGS:
            yield text_of(file) or b""


def _some(root: Path, patterns: Iterable[str]) -> list[Path]:
    found = [file for one in patterns for file in listed(root, one)]
    return list(dict.fromkeys(found))[:_MOST]


_SETTINGS = frozenset(
    (".conf", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".gin")
)
