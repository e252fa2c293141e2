"""Which files are taken, once each and in which order."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_migrate.project import discovery
from amp_migrate.project.discovery import SKIPPED_FOLDERS, discover, surroundings

Write = Callable[..., Path]


def names(root: Path, *paths: Path, exclude: tuple[str, ...] = ()) -> list[str]:
    found = list(discover(paths or (root,), [(root, exclude)]))
    assert all(one.error is None for one in found)
    return [one.path.relative_to(root).as_posix() for one in found]


def test_modules_and_notebooks_in_order(tmp_path: Path, write: Write) -> None:
    for name in ("b.py", "a.py", "a/z.py", "n.ipynb", "x.pyc", "x.pyi", "readme.md", "c.py.orig"):
        write(name)
    assert names(tmp_path) == ["a/z.py", "a.py", "b.py", "n.ipynb"]


def test_other_peoples_code_is_left_out(tmp_path: Path, write: Write) -> None:
    for folder in SKIPPED_FOLDERS:
        write(f"{folder}/a.py")
        write(f"src/{folder}/deep/a.py")
    write("env/pyvenv.cfg", "home = /usr")
    write("env/lib/a.py")
    write("src/builder/a.py")
    assert names(tmp_path) == ["src/builder/a.py"]


def test_a_named_folder_is_taken_whatever_its_name(tmp_path: Path, write: Write) -> None:
    write("build/a.py")
    write("venv/pyvenv.cfg")
    write("venv/b.py")
    assert names(tmp_path, tmp_path / "build", tmp_path / "venv") == ["build/a.py", "venv/b.py"]


def test_gitignore_nested_and_taken_back(tmp_path: Path, write: Write) -> None:
    write(".gitignore", "# comment\n\ngen_*.py\n/top.py\ndata/\n")
    write("sub/.gitignore", "!gen_kept.py\nlocal.py\n")
    for name in (
        "gen_a.py",
        "top.py",
        "sub/top.py",
        "sub/gen_kept.py",
        "sub/gen_b.py",
        "sub/local.py",
        "local.py",
    ):
        write(name)
    write("sub/data/a.py")
    write("data.py")
    assert names(tmp_path) == ["data.py", "local.py", "sub/gen_kept.py", "sub/top.py"]


def test_gitignore_of_upper_folders_of_the_repository(tmp_path: Path, write: Write) -> None:
    write(".gitignore", "*.py\n")
    (tmp_path / "repo/.git/info").mkdir(parents=True)
    write("repo/.git/info/exclude", "mine.py\n")
    write("repo/.gitignore", "gen.py\nignored/\n")
    for name in ("gen.py", "mine.py", "kept.py"):
        write(f"repo/pkg/{name}")
    write("repo/ignored/a.py")
    assert names(tmp_path, tmp_path / "repo/pkg") == ["repo/pkg/kept.py"]
    assert names(tmp_path, tmp_path / "repo") == ["repo/pkg/kept.py"]
    # A folder that is named is wanted, even if git ignores it.
    assert names(tmp_path, tmp_path / "repo/ignored") == ["repo/ignored/a.py"]


def test_gitignore_that_is_no_text_or_not_valid(tmp_path: Path, write: Write) -> None:
    write(".gitignore", b"\xff\xfe\n!\ngen.py\n")
    write("gen.py")
    write("a.py")
    assert names(tmp_path) == ["a.py"]


def test_exclude_patterns(tmp_path: Path, write: Write) -> None:
    for name in ("a.py", "test_a.py", "legacy/b.py", "pkg/legacy/c.py", "pkg/d.py"):
        write(name)
    assert names(tmp_path, exclude=("test_*", "/legacy")) == ["a.py", "pkg/d.py", "pkg/legacy/c.py"]


def test_named_files_are_always_taken(tmp_path: Path, write: Write) -> None:
    write(".gitignore", "a.py\n")
    path = write("a.py")
    odd = write("script", "print()")
    assert names(tmp_path, path, odd, exclude=("a.py",)) == ["a.py", "script"]


def test_the_same_file_twice_is_done_once(tmp_path: Path, write: Write) -> None:
    path = write("sub/a.py")
    (tmp_path / "sub/link.py").symlink_to("a.py")
    (tmp_path / "z").symlink_to("sub", target_is_directory=True)
    assert names(tmp_path, path, tmp_path, tmp_path / "sub", tmp_path / "z") == ["sub/a.py"]


def test_links_out_of_the_folder_are_left_alone(tmp_path: Path, write: Write) -> None:
    outside = write("outside.py")
    inside = write("tree/a.py")
    link = inside.with_name("link.py")
    link.symlink_to(outside)
    inside.with_name(".#a.py").symlink_to("nobody@host:1")
    inside.with_name("loop.py").symlink_to("loop.py")
    assert names(tmp_path, tmp_path / "tree") == ["tree/a.py"]
    assert names(tmp_path, link) == ["tree/link.py"]


def test_what_is_no_regular_file(tmp_path: Path, write: Write) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert names(tmp_path) == []
    (found,) = discover([tmp_path / "pipe.py"])
    assert "not a regular file" in str(found.error)
    (tmp_path / "loop.py").symlink_to("loop.py")
    (found,) = discover([tmp_path / "loop.py"])
    assert "leads to itself" in str(found.error)


def test_a_folder_without_permission_costs_itself(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.py")
    write("closed/b.py")
    write("z.py")
    real = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(errno.EACCES, "denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = list(discover([tmp_path]))
    assert [one.path.name for one in found] == ["a.py", "closed", "z.py"]
    assert "no permission to read it" in str(found[1].error)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.py"
    with open(name, "w"):
        pass
    (found,) = discover([tmp_path])
    assert os.fsencode(found.path) == name


def test_surroundings(write: Write) -> None:
    named = str(write("src/pkg/engine.py").resolve())
    near = ["main.ipynb", "pkg/other.py", "pkg/sub/deep.py", "setup.py"]
    for name in (*near, "other/far.py", "pkg/sub/deeper/far.py", "pkg/notes.txt"):
        write(f"src/{name}")
    top = Path(named).parent.parent
    assert sorted(surroundings([named], {named})) == [str(top / name) for name in near]
    assert surroundings([], {named}) == []


def test_surroundings_of_a_large_tree(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own folders are known; a caller beside it is not."""
    monkeypatch.setattr(discovery, "_MOST_FOLDERS", 3)
    known = [
        str(write(f"root/tree/{name}.py").resolve())
        for name in ("a", "one/b", "two/c", "three/d", "two/deep/e")
    ]
    write("root/tree/one/left_out.py")
    caller = str(write("root/main.py").resolve())
    assert surroundings(known, set(known)) == [caller, str(Path(known[1]).with_name("left_out.py"))]
    assert surroundings(known[:2], set(known)) == [
        caller,
        str(Path(known[1]).with_name("left_out.py")),
    ]
