"""The repositories, and how one comes into a folder."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
MANIFEST = HERE / "repositories.json"
KINDS = (".py", ".ipynb", ".toml", ".cfg", ".txt", ".yml", ".yaml")
HOST = "https://github.com"


@dataclass(frozen=True)
class Repository:
    """A repository at a commit."""

    name: str
    commit: str

    @property
    def label(self) -> str:
        """Its name as that of a file or a folder."""
        return self.name.replace("/", "+")


def manifest(only: Sequence[str] = ()) -> list[Repository]:
    """The pinned repositories, or those of them whose names hold one of `only`."""
    pinned: dict[str, str] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return [
        Repository(name, commit)
        for name, commit in pinned.items()
        if not only or any(part in name for part in only)
    ]


def clone(repository: Repository, folder: Path) -> None:
    """Bring the pinned commit, and no other, below `folder`."""
    target = folder / repository.label
    if _git_folder(folder, repository):
        return
    target.mkdir(parents=True)
    for command in (
        ["init", "--quiet", "--bare"],
        ["fetch", "--quiet", "--depth=1", f"{HOST}/{repository.name}", repository.commit],
    ):
        subprocess.run(["git", *command], cwd=target, check=True)


def _git_folder(folder: Path, repository: Repository) -> Path | None:
    """Where git's data of the repository lie: a bare repository, or one in a checkout."""
    place = folder / repository.label
    candidates = (place, place / ".git", place / "repo", place / "repo" / ".git")
    return next((one for one in candidates if (one / "HEAD").is_file()), None)


@contextmanager
def exported(repository: Repository, folder: Path) -> Iterator[Path | None]:
    """The programs of the pinned commit, and what says which torch they are for, in a folder of
    their own; None where the commit is missing.
    """
    git = _git_folder(folder, repository)
    with TemporaryDirectory(prefix="amp-record-") as name:
        target = Path(name, repository.label)
        target.mkdir()
        yield target if git and _unpacked(git, repository.commit, target) else None


def _unpacked(git: Path, commit: str, target: Path) -> bool:
    command = ["git", f"--git-dir={git}"]
    listed = subprocess.run(
        [*command, "ls-tree", "-r", "-z", commit], capture_output=True, check=False
    )
    if listed.returncode:
        return False
    entries = [entry.partition("\t") for entry in listed.stdout.decode().split("\0") if entry]
    blobs = {path: head.split()[2] for head, _, path in entries if _wanted(head, path)}
    asked = "\n".join(blobs.values()) + "\n"
    found = subprocess.run(
        [*command, "cat-file", "--batch"], input=asked.encode(), capture_output=True, check=True
    )
    for path, data in zip(blobs, _contents(found.stdout), strict=True):
        if data is not None:  # a snapshot may list files that it leaves out
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(data)
    return True


def _wanted(head: str, path: str) -> bool:
    name = path.rpartition("/")[2]
    return head.startswith("100") and (name.endswith(KINDS) or name == ".gitignore")


def _contents(answer: bytes) -> Iterator[bytes | None]:
    """The objects in what `git cat-file --batch` says."""
    at = 0
    while at < len(answer):
        end = answer.index(b"\n", at)
        words = answer[at:end].split()
        at = end + 1
        if words[-1] == b"missing":
            yield None
            continue
        size = int(words[2])
        yield answer[at : at + size]
        at += size + 1
