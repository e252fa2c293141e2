"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amp_migrate.source.errors import SourceError
from amp_migrate.source.replace import replace

Write = Callable[..., Path]


def test_replaces_and_keeps_the_mode(write: Write) -> None:
    path = write("a.py", "old")
    path.chmod(0o751)
    replace(path, b"new\r\n", b"old")
    assert path.read_bytes() == b"new\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert os.listdir(path.parent) == ["a.py"]


def test_writes_through_a_symbolic_link(write: Write) -> None:
    target = write("real/a.py", "old")
    link = target.parent.parent / "link.py"
    link.symlink_to("real/a.py")
    second = link.with_name("second.py")
    second.symlink_to("link.py")
    replace(second, b"new", b"old")
    assert os.readlink(second) == "link.py"
    assert os.readlink(link) == "real/a.py"
    assert target.read_bytes() == b"new"


def test_gives_up_a_hard_link(write: Write) -> None:
    path = write("a.py", "old")
    other = path.with_name("b.py")
    os.link(path, other)
    replace(path, b"new", b"old")
    assert (path.read_bytes(), other.read_bytes()) == (b"new", b"old")


def test_read_only_file_stays_even_for_the_superuser(write: Write) -> None:
    path = write("a.py", "old")
    path.chmod(0o444)
    with pytest.raises(SourceError, match=r"read-only.*chmod u\+w"):
        replace(path, b"new", b"old")
    assert path.read_bytes() == b"old"


def test_file_that_only_others_may_write(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.py", "old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(SourceError, match="read-only"):
        replace(path, b"new", b"old")


def test_changed_in_the_meantime(write: Write) -> None:
    path = write("a.py", "newer")
    with pytest.raises(SourceError, match="changed it in the meantime"):
        replace(path, b"new", b"old")
    assert path.read_bytes() == b"newer"


def test_gone_in_the_meantime(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no longer there"):
        replace(tmp_path / "a.py", b"new", b"old")
    assert os.listdir(tmp_path) == []


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("function", "number", "part"),
    [
        ("write", errno.ENOSPC, "no space left"),
        ("fsync", errno.ENOSPC, "no space left"),
        ("write", errno.EDQUOT, "quota"),
        ("open", errno.EACCES, "make its folder writable"),
        ("open", errno.EROFS, "read-only file system"),
        ("replace", errno.EPERM, "check its owner"),
        ("fsync", errno.EIO, "Input/output error"),
    ],
)
def test_failure_leaves_everything_as_it_was(
    write: Write, monkeypatch: pytest.MonkeyPatch, function: str, number: int, part: str
) -> None:
    path = write("a.py", "old")
    with monkeypatch.context() as patch:
        if function == "open":
            patch.setattr("tempfile.mkstemp", failing(number))
        else:
            patch.setattr(os, function, failing(number))
        with pytest.raises(SourceError, match=part) as caught:
            replace(path, b"new", b"old")
    assert "unchanged" in str(caught.value)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["a.py"]


def test_full_disk_after_half_the_bytes(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.py", "old")
    real = os.write
    calls = []

    def short(handle: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "full")
        return real(handle, data[:2])

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(SourceError, match="no space left"):
        replace(path, b"newer", b"old")
    assert calls == [5, 3]
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["a.py"]


def test_short_writes_are_finished(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.py", "old")
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:2]))
    replace(path, b"newer", b"old")
    assert path.read_bytes() == b"newer"


def test_interrupt_leaves_no_temporary_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.py", "old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace(path, b"new", b"old")
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["a.py"]


def test_foreign_owner_that_cannot_be_kept(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.py", "old")
    monkeypatch.setattr(os, "fchown", failing(errno.EPERM))
    replace(path, b"new", b"old")
    assert path.read_bytes() == b"new"
