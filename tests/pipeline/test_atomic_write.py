"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amp_migrate.pipeline.atomic_write import Change, replace, replace_all
from amp_migrate.pipeline.journal import NAME, Halfway, finish
from amp_migrate.project.errors import SourceError

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


def changes(*paths: Path) -> list[Change]:
    return [Change(path, b"new", b"old") for path in paths]


def test_files_that_belong_together(write: Write) -> None:
    first, second = write("a.py", "old"), write("sub/b.py", "old")
    first.chmod(0o751)
    link = first.with_name("link.py")
    link.symlink_to("a.py")
    replace_all(changes(link, second))
    assert (first.read_text(), second.read_text()) == ("new", "new")
    assert os.readlink(link) == "a.py"
    assert stat.S_IMODE(first.stat().st_mode) == 0o751
    assert sorted(os.listdir(first.parent)) == ["a.py", "link.py", "sub"]
    assert os.listdir(second.parent) == ["b.py"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV])
def test_the_first_is_put_back_where_the_second_cannot_be_written(
    write: Write, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    paths = [write(name, "old") for name in ("a.py", "b.py", "c.py")]
    paths[0].chmod(0o751)
    real = os.replace

    def rename(source: Path, target: Path) -> None:
        if target == paths[1]:
            assert paths[0].read_text() == "new"
            raise OSError(number, os.strerror(number))
        real(source, target)

    monkeypatch.setattr(os, "replace", rename)
    with pytest.raises(SourceError, match="it is unchanged") as caught:
        replace_all(changes(*paths))
    assert caught.value.path == str(paths[1])
    assert [path.read_text() for path in paths] == ["old"] * 3
    assert stat.S_IMODE(paths[0].stat().st_mode) == 0o751
    assert sorted(os.listdir(paths[0].parent)) == ["a.py", "b.py", "c.py"]


def test_interrupt_between_two_files_puts_the_first_back(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write("a.py", "old"), write("b.py", "old")
    real = os.replace

    def rename(source: Path, target: Path) -> None:
        if target == second:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", rename)
    with pytest.raises(KeyboardInterrupt):
        replace_all(changes(first, second))
    assert (first.read_text(), second.read_text()) == ("old", "old")
    assert sorted(os.listdir(first.parent)) == ["a.py", "b.py"]


def test_what_cannot_even_be_put_back_is_finished_by_the_next_run(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(name, "old") for name in ("a.py", "b.py", "c.py")]
    real, real_fsync = os.replace, os.fsync

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def rename(source: Path, target: Path) -> None:
        if target == paths[2]:
            monkeypatch.setattr(os, "fsync", full)
            raise OSError(errno.EPERM, "denied")
        real(source, target)

    monkeypatch.setattr(os, "replace", rename)
    with pytest.raises(Halfway) as caught:
        replace_all(changes(*paths))
    told = str(caught.value)
    assert "check its owner" in told
    assert f"{paths[0]}, {paths[1]} could not be put back (No space left on device)" in told
    assert "run again in the same folder: that finishes it" in told
    assert [path.read_text() for path in paths] == ["new", "new", "old"]
    monkeypatch.setattr(os, "replace", real)
    monkeypatch.setattr(os, "fsync", real_fsync)
    assert finish([paths[0].parent])[0].endswith(f"now written: {paths[2]}")
    assert [path.read_text() for path in paths] == ["new"] * 3
    assert sorted(os.listdir(paths[0].parent)) == ["a.py", "b.py", "c.py"]


@pytest.mark.parametrize("second", ["read-only", "changed", "gone"])
def test_nothing_is_written_where_one_file_may_not_be(write: Write, second: str) -> None:
    paths = [write("a.py", "old"), write("b.py", "old")]
    if second == "read-only":
        paths[1].chmod(0o444)
    elif second == "changed":
        paths[1].write_text("newer")
    else:
        paths[1].unlink()
    left = sorted(os.listdir(paths[0].parent))
    with pytest.raises(SourceError) as caught:
        replace_all(changes(*paths))
    assert caught.value.path == str(paths[1])
    assert paths[0].read_text() == "old"
    assert sorted(os.listdir(paths[0].parent)) == left


@pytest.mark.parametrize("where", ["mkstemp", "write"])
def test_journal_that_cannot_be_written(
    write: Write, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """As in a folder in which new names are forbidden, or on a disk that is full: then nothing is
    renamed.
    """
    paths = [write("a.py", "old"), write("sub/b.py", "old")]
    real = tempfile.mkstemp

    def mkstemp(prefix: str, suffix: str, dir: Path) -> tuple[int, str]:  # noqa: A002 - its own name
        if prefix.startswith(NAME) and dir == paths[1].parent:
            raise PermissionError(errno.EACCES, "denied")
        return real(prefix=prefix, suffix=suffix, dir=dir)

    def dump(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    if where == "mkstemp":
        monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    else:
        monkeypatch.setattr("json.dump", dump)
    with pytest.raises(SourceError, match="cannot be written"):
        replace_all(changes(*paths))
    assert [path.read_text() for path in paths] == ["old", "old"]
    assert sorted(os.listdir(paths[0].parent)) == ["a.py", "sub"]
    assert os.listdir(paths[1].parent) == ["b.py"]


def test_no_journal_stays(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write("a.py", "old"), write("b.py", "old")]
    real, seen = os.replace, []

    def rename(source: Path, target: Path) -> None:
        seen.append((paths[0].parent / NAME).is_file())
        real(source, target)

    monkeypatch.setattr(os, "replace", rename)
    replace_all(changes(*paths))
    assert seen == [False, True, True]
    assert sorted(os.listdir(paths[0].parent)) == ["a.py", "b.py"]
