"""A tree that means harm: nothing of it runs, nothing blocks, nothing outside of it is touched."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_migrate import regular_files
from amp_migrate.pipeline.journal import NAME, finish
from amp_migrate.project.since import changed_since
from tests.cli.conftest import python

Write = Callable[..., Path]
LOOP = """import torch

model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""
SHADOWS = """
    abc ast asyncio bisect click collections contextlib copyreg dataclasses enum fnmatch functools
    heapq importlib inspect io json keyword libcst linecache locale logging multiprocessing opcode
    operator os pathlib pathspec pickle platform queue random re rich runpy selectors shutil signal
    socket stat string struct subprocess tempfile textwrap threading token tokenize traceback types
    typing warnings weakref yaml
""".split()


def shadowed(write: Write, names: list[str]) -> None:
    for name in names:
        write(f"{name}.py", f"open({name!r} + '.ran', 'w')\n{LOOP}{'#' * 3_000}\n")


def ran(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.ran"))


@pytest.mark.parametrize("command", [("--check",), ("lint",), ("lint", "--fix")])
def test_modules_of_the_tree_never_run(write: Write, tmp_path: Path, command: tuple[str]) -> None:
    """Enough loops for workers, in a folder that is the current one."""
    shadowed(write, SHADOWS)
    entry = "import sys; from amp_migrate.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", entry, *command, "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert "worker" not in done.stdout
    assert ran(tmp_path) == []


@pytest.mark.parametrize("command", [("--check",), ("lint",)])
def test_python_m_in_the_folder(write: Write, tmp_path: Path, command: tuple[str]) -> None:
    """What Python reads before our first line is out of reach; all that comes later is not."""
    late = ["ast", "pickle", "signal", "struct", "socket", "click", "libcst", "pathlib", "json"]
    shadowed(write, late * (len(SHADOWS) // len(late)))
    for number in range(40):
        write(f"loop_{number}.py", LOOP + "#" * 3_000)
    done = subprocess.run(
        [sys.executable, "-m", "amp_migrate", *command, "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert ran(tmp_path) == []


# -- git


def git(folder: Path, *args: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


def test_git_runs_no_program_of_the_repository(
    write: Write, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    marks = tmp_path_factory.mktemp("marks")

    def run(name: str) -> str:
        return f"sh -c 'touch {marks}/{name}; cat'"

    git(tmp_path, "init", "-q")
    write("a.py", "1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    write("a.py", "2\n")
    write(".gitattributes", "*.py filter=evil diff=evil\n")
    for key in ("core.fsmonitor", "diff.external", "diff.evil.textconv", "diff.evil.command"):
        git(tmp_path, "config", key, run(key))
    for key in ("clean", "smudge", "process"):
        git(tmp_path, "config", f"filter.evil.{key}", run(f"filter-{key}"))
    git(tmp_path, "config", "filter.evil.required", "true")
    hook = write(".git/hooks/post-index-change", f"#!/bin/sh\ntouch {marks}/hook\n")
    hook.chmod(0o755)
    os.utime(tmp_path / "a.py", (1, 1))
    assert str(tmp_path / "a.py") in changed_since("HEAD", [tmp_path])
    assert list(marks.iterdir()) == []


def test_a_submodule_is_asked_by_itself(
    write: Write, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    marks = tmp_path_factory.mktemp("marks")
    git(tmp_path, "init", "-q")
    write("inner/b.py", "1\n")
    git(tmp_path / "inner", "init", "-q")
    git(tmp_path / "inner", "add", ".")
    git(tmp_path / "inner", "commit", "-q", "-m", "one")
    git(tmp_path, "add", "inner")
    git(tmp_path, "commit", "-q", "-m", "one")
    assert changed_since("HEAD", [tmp_path]) == frozenset()
    write("inner/b.py", "2\n")
    write("inner/.gitattributes", "*.py filter=evil\n")
    git(tmp_path / "inner", "config", "filter.evil.clean", f"sh -c 'touch {marks}/ran; cat'")
    assert str(tmp_path / "inner/b.py") in changed_since("HEAD", [tmp_path])
    assert list(marks.iterdir()) == []


# -- what is no file


@pytest.fixture
def pipes(write: Write, tmp_path: Path) -> Path:
    """A program among pipes that nobody writes to; whoever opens one waits for ever."""
    inner = tmp_path / "project"
    write("project/train.py", LOOP.replace("import torch", "import torch\nimport helper"))
    names = (".gitignore", "pyproject.toml", "setup.py", "requirements.txt", "near.py", NAME)
    for name in (*names, "sub/helper.py"):
        (inner / name).parent.mkdir(exist_ok=True)
        os.mkfifo(inner / name)
    for name in ("pyproject.toml", "requirements.txt", "beside.py", "helper.py"):
        os.mkfifo(tmp_path / name)
    (inner / "dangling.py").symlink_to("nowhere")
    (inner / "device.py").symlink_to("/dev/zero")
    return inner


@pytest.mark.parametrize("command", [("--check",), ("lint",), ()])
@pytest.mark.parametrize("name", [".", "train.py"])
def test_pipes_and_devices_are_passed_over(pipes: Path, command: tuple[str], name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "amp_migrate", *command, name],
        cwd=pipes,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert "train.py" in done.stdout


def test_files_of_gigabytes(write: Write, tmp_path: Path) -> None:
    write("project/train.py", LOOP)
    for name in ("project/huge.py", "near.py", "project/requirements.txt", "project/.gitignore"):
        with write(name, "").open("wb") as file:
            file.truncate(3 * 2**30)
    done = python("-m", "amp_migrate", "--check", ".", cwd=tmp_path / "project")
    assert "cannot be read: larger than 64 MiB; exclude it" in done.stdout
    assert "train.py" in done.stdout


# -- journals


def entry(folder: str, new: bytes, old: bytes) -> dict[str, str]:
    def digest(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    names = {"new": f"{folder}.a.py.x.tmp", "old": f"{folder}a.py"}
    return {**names, "from": digest(old), "to": digest(new)}


@pytest.mark.parametrize("way", ["../outside/", "link/", "inner/link/"])
def test_a_journal_reaches_nothing_outside(write: Write, tmp_path: Path, way: str) -> None:
    root = tmp_path / "root"
    target = write("outside/a.py", "old")
    write("outside/.a.py.x.tmp", "new")
    write("root/inner/b.py", "new")
    write("root/inner/.b.py.x.tmp", "new")
    for link in (root / "link", root / "inner/link"):
        link.symlink_to(tmp_path / "outside")
    done = entry("inner/", b"new", b"old")
    done = {**done, "new": "inner/.b.py.x.tmp", "old": "inner/b.py"}
    write(f"root/{NAME}", json.dumps([done, entry(way, b"new", b"old")]))
    [told] = finish([root], roots=[root])
    assert "now written" not in told
    assert target.read_text() == "old"
    assert (tmp_path / "outside/.a.py.x.tmp").exists()


@pytest.mark.parametrize(
    "data",
    ["[" * 200_000, '{"a":' * 100_000, "[" + "0," * 3_000_000 + "0]", '[{"new": "\\u0000"}]'],
)
def test_a_journal_of_any_shape_is_told(write: Write, tmp_path: Path, data: str) -> None:
    write(NAME, data)
    [told] = finish([tmp_path])
    assert "an earlier run was cut off" in told


def test_a_journal_that_is_a_link_is_not_followed(write: Write, tmp_path: Path) -> None:
    elsewhere = write("elsewhere.json", "[]")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / NAME).symlink_to(elsewhere)
    [told] = finish([tmp_path / "root"])
    assert "cannot be read" in told
    assert elsewhere.exists()


# -- what a killed run leaves behind

DIES = """
import os, signal, sys
from pathlib import Path
from amp_migrate.pipeline import atomic_write
from amp_migrate.pipeline.atomic_write import Change, replace_all

os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
replace_all([Change(Path("a.py"), b"new", b"old")])
"""


def test_leftovers_of_a_killed_run_are_removed(write: Write, tmp_path: Path) -> None:
    write("a.py", "old")
    others = [
        write(name, "") for name in (".a.py.swp", ".a.py.12345678.tmp", "x.amp-migrate-a.tmp")
    ]
    done = python("-c", DIES, cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    [left] = {path.name for path in tmp_path.glob(".a.py.amp-migrate-*")}
    assert finish([tmp_path], write=False) == []
    assert (tmp_path / left).exists()
    assert finish([tmp_path]) == []
    assert not (tmp_path / left).exists()
    assert all(path.exists() for path in others)
    assert (tmp_path / "a.py").read_text() == "old"


def test_a_temporary_file_of_a_run_that_lives_stays(write: Write, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    path = write(".a.py.amp-migrate-abcdefgh.tmp", "")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        finish([tmp_path])
        assert path.exists()
    finish([tmp_path])
    assert not path.exists()


def test_a_folder_that_goes_while_it_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(self: Path, pattern: str) -> object:
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "glob", gone)
    assert regular_files.listed(tmp_path, "*/*.py") == []
