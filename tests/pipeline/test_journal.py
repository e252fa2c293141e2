"""Files that belong together, and what a crash between two of them leaves for the next run."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_migrate.pipeline import journal as unfinished
from amp_migrate.pipeline.atomic_write import Change, replace_all
from amp_migrate.pipeline.journal import NAME, Staged, finish, journal
from amp_migrate.project.errors import SourceError
from tests.cli.conftest import python

Write = Callable[..., Path]
Files = tuple[Path, Path, Path]

# Ends itself at the rename of the number given, counted among those that put a program in place.
DIES = """
import os, signal, sys
from pathlib import Path
from amp_migrate.pipeline.atomic_write import Change, replace_all

real, left = os.replace, int(sys.argv[1])

def rename(source, target):
    global left
    if str(target).endswith(".py"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    real(source, target)

os.replace = rename
replace_all([Change(Path(name), b"new " + name.encode(), b"old " + name.encode()) for name in sys.argv[2:]])
"""


@pytest.fixture
def files(write: Write) -> Files:
    """Three files of one program in two folders."""
    first, second, third = (write(name, f"old {name}") for name in ("a.py", "b.py", "sub/c.py"))
    return first, second, third


def killed(tmp_path: Path, at: int) -> None:
    done = python("-c", DIES, at, "a.py", "b.py", "sub/c.py", cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr


def texts(files: Files) -> list[str]:
    return [path.read_text().split()[0] for path in files]


def leftovers(folder: Path) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names if name.startswith(".")]


def healed(files: Files) -> list[str]:
    return finish(path.parent for path in files)


@pytest.mark.parametrize("at", [1, 2])
def test_killed_between_two_renames(files: Files, tmp_path: Path, at: int) -> None:
    killed(tmp_path, at)
    assert texts(files) == ["new"] * at + ["old"] * (3 - at)
    [told] = healed(files)
    assert told.startswith("an earlier run was cut off while it wrote; now written: ")
    assert [str(path) in told for path in files] == [False] * at + [True] * (3 - at)
    assert [path.read_text() for path in files] == ["new a.py", "new b.py", "new sub/c.py"]
    assert leftovers(tmp_path) == []
    assert healed(files) == []


def test_every_folder_knows(files: Files, tmp_path: Path) -> None:
    killed(tmp_path, 1)
    assert "name a folder that holds both" in finish([tmp_path / "sub"])[0]
    assert texts(files) == ["new", "old", "old"]
    assert len(finish([tmp_path / "sub"], roots=[tmp_path])) == 1
    assert texts(files) == ["new"] * 3
    assert leftovers(tmp_path) == []


def test_killed_before_the_first_rename(files: Files, tmp_path: Path) -> None:
    killed(tmp_path, 0)
    assert texts(files) == ["old"] * 3
    assert len(leftovers(tmp_path)) == 5
    assert healed(files) == []
    assert texts(files) == ["old"] * 3
    assert leftovers(tmp_path) == []


def test_killed_after_the_last_rename(files: Files, tmp_path: Path) -> None:
    killed(tmp_path, 2)
    journals = {path.parent / NAME: (path.parent / NAME).read_bytes() for path in files}
    healed(files)
    for place, data in journals.items():
        place.write_bytes(data)
    assert healed(files) == []
    assert texts(files) == ["new"] * 3
    assert leftovers(tmp_path) == []


def test_nothing_is_written_where_nothing_may_be(files: Files, tmp_path: Path) -> None:
    killed(tmp_path, 1)
    before = sorted(leftovers(tmp_path))
    told = finish([tmp_path, tmp_path / "sub"], write=False)
    assert len(told) == 2
    assert all("run without --check and --diff to finish it" in line for line in told)
    assert texts(files) == ["new", "old", "old"]
    assert sorted(leftovers(tmp_path)) == before


def test_put_back_by_the_user_is_not_written_again(files: Files, tmp_path: Path) -> None:
    killed(tmp_path, 1)
    files[0].write_text("old a.py")
    assert healed(files) == []
    assert texts(files) == ["old"] * 3
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("changed", "rewritten"),
    [(0, "a.py"), (1, "a.py"), (2, "a.py")],
    ids=["after its rename", "instead of its rename", "in another folder"],
)
def test_changed_since_is_told_and_left(
    files: Files, tmp_path: Path, changed: int, rewritten: str
) -> None:
    killed(tmp_path, 1)
    files[changed].write_text("mine")
    before = texts(files), sorted(leftovers(tmp_path))
    told = healed(files)
    assert len(told) == 2
    assert f"Rewritten: {tmp_path / rewritten}; not: {files[1]}, {files[2]}" in told[0]
    assert "then delete this file" in told[0]
    assert (texts(files), sorted(leftovers(tmp_path))) == before


def test_one_put_back_and_one_not(files: Files, tmp_path: Path) -> None:
    killed(tmp_path, 2)
    files[0].write_text("old a.py")
    told = healed(files)
    assert f"Rewritten: {files[1]}; not: {files[0]}, {files[2]}" in told[0]
    assert texts(files) == ["old", "new", "old"]


def test_new_content_that_is_gone_or_damaged(files: Files, tmp_path: Path) -> None:
    killed(tmp_path, 1)
    [temporary] = [path for path in tmp_path.iterdir() if path.name.startswith(".b.py.")]
    temporary.write_text("half of i")
    assert "Rewritten" in healed(files)[0]
    temporary.unlink()
    assert "Rewritten" in healed(files)[0]
    assert texts(files) == ["new", "old", "old"]


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[{",
        "[1]",
        "{}x",
        '{"new": 1}',
        '[{"new": "x"}]',
        '[{"new": 1, "old": 2, "from": 3, "to": 4}]',
        '[{"new": ".a.py.1.tmp", "old": "a.py", "from": "", "to": ""}]',
    ],
)
def test_damaged_journal_is_told_and_left(files: Files, tmp_path: Path, damage: str) -> None:
    (tmp_path / NAME).write_text(damage)
    [told] = healed(files)
    assert str(tmp_path / NAME) in told
    assert "its notes are damaged; compare its files, then delete it" in told
    assert (tmp_path / NAME).read_text() == damage
    assert texts(files) == ["old"] * 3


def test_journal_of_somebody_else_reaches_no_other_file(files: Files, tmp_path: Path) -> None:
    """A project that comes with a journal cannot have files elsewhere overwritten by its own."""
    killed(tmp_path, 1)
    payload = tmp_path / "payload"
    for name in ("payload", "sub/payload"):
        (tmp_path / name).write_text("theirs")
    entries = json.loads((tmp_path / NAME).read_text())
    for new in ("payload", "sub/.b.py.x.tmp", ".b.py.x.py"):
        entries[1]["new"] = new
        (tmp_path / NAME).write_text(json.dumps(entries))
        assert "damaged" in finish([tmp_path])[0]
    assert texts(files) == ["new", "old", "old"]
    assert payload.read_text() == "theirs"


def test_copied_tree_heals_itself_alone(
    files: Files, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    killed(tmp_path, 1)
    copy = tmp_path_factory.mktemp("copy") / "tree"
    shutil.copytree(tmp_path, copy)
    assert len(finish([copy])) == 1
    assert [(copy / name).read_text()[:3] for name in ("a.py", "b.py", "sub/c.py")] == ["new"] * 3
    assert texts(files) == ["new", "old", "old"]


def test_a_run_that_still_writes_is_left_alone(files: Files, tmp_path: Path) -> None:
    staged = [Staged(path.with_name(f".{path.name}.x.tmp"), path) for path in files[:2]]
    for one in staged:
        one.temporary.write_text("new")
    with journal(staged):
        assert finish([tmp_path]) == [f"{tmp_path / NAME}: another run is writing these files now"]
        assert all(one.temporary.is_file() for one in staged)
    assert finish([tmp_path]) == []


def test_two_runs_do_not_share_a_journal(files: Files, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("of another run")
    with pytest.raises(SourceError, match=r"an earlier run that was cut off: see to it"):
        replace_all([Change(path, b"new", path.read_bytes()) for path in files])
    assert (tmp_path / NAME).read_text() == "of another run"
    assert texts(files) == ["old"] * 3
    assert leftovers(tmp_path) == [NAME]


def test_one_file_needs_no_journal(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> int:
        raise AssertionError

    monkeypatch.setattr(unfinished, "_written", none)
    replace_all([Change(files[0], b"new", files[0].read_bytes())])
    assert texts(files) == ["new", "old", "old"]


def test_the_command_finishes_first(files: Files, tmp_path: Path) -> None:
    killed(tmp_path, 1)
    done = python("-m", "amp_migrate", "--check", "a.py", cwd=tmp_path)
    assert "run without --check and --diff" in done.stderr
    assert texts(files) == ["new", "old", "old"]
    done = python("-m", "amp_migrate", "a.py", cwd=tmp_path)
    assert f"now written: {files[1]}, {files[2]}" in done.stderr
    assert texts(files) == ["new"] * 3
    assert leftovers(tmp_path) == []
