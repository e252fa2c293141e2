"""`--since REV`: only what changed is told and rewritten, and its callers elsewhere are still
seen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_migrate.cli import main
from amp_migrate.pipeline import workers as parallel
from amp_migrate.project import since
from amp_migrate.project.since import SinceError, changed_since
from tests.cli.conftest import Ran

Write = Callable[..., Path]
Git = Callable[..., str]
Run = Callable[..., Ran]

MAIN = """\
import torch
from engine import train

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(3, 4), torch.tensor([0, 1, 0])) for _ in range(3)]
train(model, loader, optimizer, torch.nn.CrossEntropyLoss(), device)
"""
ENGINE = """\
def train(model, loader, optimizer, criterion, device):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
"""
LONE = MAIN.replace("from engine import train\n", "").replace(
    "train(model, loader, optimizer, torch.nn.CrossEntropyLoss(), device)\n",
    """\
criterion = torch.nn.CrossEntropyLoss()
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
""",
)
BARE = """\
import torch
def fit(model, loader, optimizer, criterion, scaler):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        optimizer.step()
        scaler.update()
"""


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """`git("add", ".")` in `tmp_path`, which is a repository that takes nothing from the machine's
    own settings.
    """
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in (("GIT_CONFIG_GLOBAL", os.devnull), ("GIT_CONFIG_SYSTEM", os.devnull)):
        monkeypatch.setenv(name, value)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "somebody@example.org")

    def git(*args: str, cwd: Path = tmp_path) -> str:
        return subprocess.run(
            ["git", *args], cwd=cwd, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q", "-b", "main")
    return git


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Run:
    """The command line in this process, with the real migrator, from the folder `tmp_path`."""
    monkeypatch.setattr(parallel, "workers_for", lambda *_, **__: 0)
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Ran:
        code = main(list(args))
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Ran(code, out, " ".join(err.decode().split()))

    return run


def committed(git: Git, message: str = "one") -> None:
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", message)


def names(tmp_path: Path, revision: str, *paths: Path) -> list[str]:
    found = changed_since(revision, paths or (tmp_path,))
    return sorted(os.path.relpath(path, tmp_path) for path in found)


# -- what changed


def test_committed_staged_unstaged_and_untracked(git: Git, write: Write, tmp_path: Path) -> None:
    for name in ("same.py", "committed.py", "staged.py", "edited.py", "deleted.py", "both.py"):
        write(name, "1\n")
    write(".gitignore", "ignored.py\n")
    committed(git)
    write("committed.py", "2\n")
    committed(git, "two")
    write("staged.py", "2\n")
    write("both.py", "2\n")
    write("added.py", "2\n")
    git("add", "staged.py", "both.py", "added.py")
    write("both.py", "1\n")
    write("edited.py", "2\n")
    write("deleted.py").unlink()
    write("sub/untracked.py", "2\n")
    write("ignored.py", "2\n")
    assert names(tmp_path, "HEAD") == ["added.py", "edited.py", "staged.py", "sub/untracked.py"]
    assert names(tmp_path, "HEAD~1") == [
        "added.py",
        "committed.py",
        "edited.py",
        "staged.py",
        "sub/untracked.py",
    ]
    assert names(tmp_path, "HEAD", tmp_path / "sub") == ["sub/untracked.py"]
    assert names(tmp_path, "HEAD", tmp_path / "edited.py", tmp_path / "same.py") == ["edited.py"]


def test_touched_is_not_changed(git: Git, write: Write, tmp_path: Path) -> None:
    path = write("a.py", "1\n")
    committed(git)
    os.utime(path, (1, 1))
    assert names(tmp_path, "HEAD") == []


def test_renamed_counts_under_its_new_name(git: Git, write: Write, tmp_path: Path) -> None:
    write("old.py", "1\n" * 50)
    write("other.py", "2\n" * 50)
    committed(git)
    git("mv", "old.py", "new name.py")
    git("config", "diff.renames", "copies")
    assert names(tmp_path, "HEAD") == ["new name.py"]
    write("other.py").rename(tmp_path / "außen.py")
    assert names(tmp_path, "HEAD") == ["außen.py", "new name.py"]


def test_since_the_branch_began(git: Git, write: Write, tmp_path: Path) -> None:
    write("a.py", "1\n")
    committed(git)
    git("checkout", "-q", "-b", "feature")
    write("mine.py", "1\n")
    committed(git, "mine")
    git("checkout", "-q", "main")
    write("a.py", "2\n")
    committed(git, "theirs")
    git("checkout", "-q", "feature")
    assert names(tmp_path, "main") == ["a.py", "mine.py"]
    assert names(tmp_path, "main...") == ["mine.py"]
    git("checkout", "-q", "--orphan", "alone")
    committed(git, "alone")
    with pytest.raises(SinceError, match="no commit in common"):
        names(tmp_path, "main...")


def test_below_a_link_and_in_a_repository_inside(
    git: Git, write: Write, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write("a.py", "1\n")
    committed(git)
    write("inner/b.py", "1\n")
    git("init", "-q", cwd=tmp_path / "inner")
    assert names(tmp_path, "HEAD") == ["inner/b.py"]
    committed(lambda *args: git(*args, cwd=tmp_path / "inner"))
    assert names(tmp_path, "HEAD", tmp_path / "inner") == []
    write("a.py", "2\n")
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(tmp_path)
    assert names(tmp_path, "HEAD", link / "a.py") == ["a.py"]


def test_in_a_hook_git_names_its_own_folder(
    git: Git, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("sub/a.py", "1\n")
    committed(git)
    write("sub/a.py", "2\n")
    monkeypatch.setenv("GIT_DIR", ".git")
    assert names(tmp_path, "HEAD", tmp_path / "sub") == ["sub/a.py"]


@pytest.mark.parametrize("revision", ["nowhere", "", "...", "--all", "HEAD:a.py", "HEAD~9", "-h"])
def test_revision_that_is_none(git: Git, write: Write, tmp_path: Path, revision: str) -> None:
    write("a.py", "1\n")
    committed(git)
    with pytest.raises(SinceError, match="names no commit in"):
        names(tmp_path, revision)


def test_no_commit_yet(git: Git, tmp_path: Path) -> None:
    assert git("status", "--short") == ""
    with pytest.raises(SinceError, match="'HEAD' names no commit"):
        names(tmp_path, "HEAD")


def test_clone_without_history(
    git: Git, write: Write, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write("a.py", "1\n")
    committed(git)
    committed(git, "two")
    clone = tmp_path_factory.mktemp("shallow") / "clone"
    git("clone", "-q", "--depth=1", tmp_path.as_uri(), str(clone))
    with pytest.raises(SinceError, match=r"without its history: fetch it \(git fetch --unshallow"):
        changed_since("HEAD~1", [clone])


def test_git_fails_later(git: Git, write: Write, tmp_path: Path) -> None:
    write("a.py", "1\n")
    committed(git)
    shutil.rmtree(tmp_path / ".git" / "index", ignore_errors=True)
    (tmp_path / ".git" / "index").write_bytes(b"no index at all")
    with pytest.raises(SinceError, match="git diff failed: "):
        names(tmp_path, "HEAD")


# -- errors of the command line


@pytest.mark.parametrize("command", ["migrate", "lint"])
def test_wrong_usage(run: Run, git: Git, write: Write, tmp_path: Path, command: str) -> None:
    path = write("lone.py", LONE)
    committed(git)
    ran = run(command, "--since", "nowhere", ".")
    assert (ran.code, ran.out) == (2, b"")
    assert f"--since: 'nowhere' names no commit in {tmp_path}" in ran.err
    ran = run(command, "--since", "HEAD", "-")
    assert ran.code == 2
    assert "standard input is none" in ran.err
    assert path.read_text() == LONE


@pytest.mark.parametrize("command", ["migrate", "lint"])
def test_no_repository(
    run: Run, write: Write, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("lone.py", LONE)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    ran = run(command, "--since", "HEAD", ".")
    assert ran.code == 2
    assert f"{tmp_path} lies in no git repository" in ran.err
    assert path.read_text() == LONE


@pytest.mark.parametrize("command", ["migrate", "lint"])
def test_no_git(
    run: Run, git: Git, write: Write, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("lone.py", LONE)
    committed(git)
    monkeypatch.setenv("PATH", "")
    ran = run(command, "--since", "HEAD", ".")
    assert ran.code == 2
    assert "git is not installed, or not on the PATH" in ran.err


def test_git_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(since.subprocess, "run", refuse)
    with pytest.raises(SinceError, match=r"cannot be run in .*: Permission denied"):
        changed_since("HEAD", [tmp_path])


def test_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(SinceError, match="gone is not there"):
        changed_since("HEAD", [tmp_path / "gone" / "a.py"])


# -- migrate


@pytest.fixture
def project(git: Git, write: Write) -> dict[str, Path]:
    """A program of two files and one of a single file, committed."""
    files = {
        name: write(name, text)
        for name, text in (("main.py", MAIN), ("engine.py", ENGINE), ("lone.py", LONE))
    }
    committed(git)
    return files


def test_a_changed_loop_takes_its_unchanged_caller_along(
    run: Run, project: dict[str, Path]
) -> None:
    project["engine.py"].write_text("# changed\n" + ENGINE)
    ran = run("--since", "HEAD", ".")
    assert ran.code == 0
    assert "migrated  engine.py:6 in train" in ran.text
    assert "Migrated 1 loop in 2 files (2 files looked at)." in ran.text
    assert (
        "train(model, loader, optimizer, torch.nn.CrossEntropyLoss(), device, scaler=scaler)"
        in (project["main.py"].read_text())
    )
    assert project["lone.py"].read_text() == LONE


def test_the_whole_run_writes_the_same(run: Run, git: Git, project: dict[str, Path]) -> None:
    project["engine.py"].write_text("# changed\n" + ENGINE)
    run("--since", "HEAD", ".")
    limited = [project[name].read_text() for name in ("main.py", "engine.py")]
    git("checkout", "-q", ".")
    project["engine.py"].write_text("# changed\n" + ENGINE)
    run(".")
    assert [project[name].read_text() for name in ("main.py", "engine.py")] == limited


def test_a_changed_caller_rewrites_no_loop_elsewhere(run: Run, project: dict[str, Path]) -> None:
    project["main.py"].write_text(MAIN + "# changed\n")
    ran = run("--since", "HEAD", ".")
    assert (ran.code, ran.text) == (0, "No plain training loop found (1 file looked at).\n")
    assert project["engine.py"].read_text() == ENGINE


def test_company_that_was_not_needed_stays_as_it_is(run: Run, project: dict[str, Path]) -> None:
    """The file that is imported has a loop of its own; it is looked at for the other's sake, and
    in vain.
    """
    new = project["lone.py"].with_name("new.py")
    new.write_text(
        LONE.replace("import torch\n", "import torch\nimport zoo\nfrom lone import loader\n", 1)
        .replace("torch.nn.Linear(4, 2)", "zoo.net_with_sigmoid()")
        .replace("CrossEntropyLoss", "BCELoss")
    )
    ran = run("--since", "HEAD", ".")
    assert "refused   new.py:13 in <module>: bce-on-probabilities" in ran.text
    assert "(1 file looked at)" in ran.text
    assert project["lone.py"].read_text() == LONE


def test_nothing_changed(run: Run, project: dict[str, Path]) -> None:
    assert run("--since", "HEAD", ".").text == "No Python files found.\n"
    assert project["lone.py"].read_text() == LONE


def test_check_and_diff(run: Run, project: dict[str, Path]) -> None:
    project["engine.py"].write_text("# changed\n" + ENGINE)
    assert run("--check", "--since", "HEAD", ".").code == 1
    ran = run("--diff", "--since", "HEAD", ".")
    assert [line for line in ran.text.splitlines() if line.startswith("+++")] == [
        "+++ b/engine.py",
        "+++ b/main.py",
    ]
    assert project["main.py"].read_text() == MAIN


def test_files_that_are_named_are_limited_as_well(run: Run, project: dict[str, Path]) -> None:
    project["engine.py"].write_text("# changed\n" + ENGINE)
    ran = run("--since", "HEAD", "engine.py")
    assert "callers-in-other-modules" in ran.text
    assert project["main.py"].read_text() == MAIN
    assert run("--since", "HEAD", "lone.py").text == "No Python files found.\n"


# -- lint


def test_lint_tells_of_changed_files_only(run: Run, git: Git, write: Write) -> None:
    write("old.py", BARE)
    write("new.py", BARE)
    committed(git)
    assert run("lint", "--since", "HEAD", ".").code == 0
    write("new.py", "# changed\n" + BARE)
    ran = run("lint", "--since", "HEAD", "--output-format", "concise", ".")
    assert ran.code == 1
    assert {
        line.split(":")[0] for line in ran.text.splitlines() if "bare-optimizer-step" in line
    } == {"new.py"}
    ran = run("lint", "--output-format", "concise", ".")
    assert {
        line.split(":")[0] for line in ran.text.splitlines() if "bare-optimizer-step" in line
    } == {
        "new.py",
        "old.py",
    }


def test_lint_fixes_changed_files_only(run: Run, git: Git, write: Write) -> None:
    old, new = write("old.py", BARE), write("new.py", BARE)
    committed(git)
    write("new.py", "# changed\n" + BARE)
    run("lint", "--fix", "--since", "HEAD", ".")
    assert old.read_text() == BARE
    assert "scaler.step(optimizer)" in new.read_text()


def test_a_baseline_needs_all_files(run: Run, git: Git, write: Write, tmp_path: Path) -> None:
    write("a.py", BARE)
    committed(git)
    ran = run("lint", "--since", "HEAD", "--write-baseline", "base.json", ".")
    assert ran.code == 2
    assert "--write-baseline" in ran.err
    assert not (tmp_path / "base.json").exists()
