"""Which files changed since a git revision: committed, staged or not, and those that git does not
know yet.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path


class SinceError(ValueError):
    """Git cannot answer; the message says why and what to do."""


def changed_since(revision: str, paths: Sequence[Path]) -> frozenset[str]:
    """Resolved paths, at and below `paths`, of files that are not as they were at `revision`.

    `revision` is any name of a commit; with three dots behind it (`main...`) it is the commit at
    which the current branch left it. A renamed file counts as changed under its new name; a deleted
    one and one that git ignores do not count. Where git names a folder (a submodule, or another
    repository in the tree), all files below it count. Raises SinceError.
    """
    return frozenset(
        file
        for top, below in _by_repository(paths).items()
        for name in _names(top, _commit(top, revision), below)
        for file in _files(f"{top}/{name}")
    )


def _by_repository(paths: Sequence[Path]) -> dict[str, list[str]]:
    """The paths, relative to the top of the repository that each is in."""
    found: dict[str, list[str]] = {}
    tops: dict[str, str] = {}
    for path in paths:
        real = os.path.realpath(path)
        folder = real if os.path.isdir(real) else os.path.dirname(real)  # noqa: PTH112, PTH120
        if folder not in tops:
            tops[folder] = _top(folder)
        found.setdefault(tops[folder], []).append(
            os.path.relpath(real, tops[folder])
        )
    return found


def _top(folder: str) -> str:
    done = _git(folder, "rev-parse", "--show-toplevel")
    if done.returncode == 0:
        return os.path.realpath(os.fsdecode(done.stdout).rstrip("\n"))
    if "not a git repository" in _said(done):
        raise SinceError(f"{folder} lies in no git repository")
    raise SinceError(f"{folder}: {_said(done)}")


def _commit(top: str, revision: str) -> str:
    name = revision.removesuffix("...")
    done = _git(
        top,
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{name}^{{commit}}",
    )
    commit = done.stdout.decode().strip()
    if not name or done.returncode or not commit:
        raise SinceError(f"{name!r} names no commit in {top}{_shallow(top)}")
    if name == revision:
        return commit
    done = _git(top, "merge-base", commit, "HEAD")
    if done.returncode:
        raise SinceError(
            f"{name!r} and the current branch have no commit in common in {top}{_shallow(top)}"
        )
    return done.stdout.decode().split()[0]


def _shallow(top: str) -> str:
    if (
        _git(top, "rev-parse", "--is-shallow-repository").stdout.strip()
        != b"true"
    ):
        return ""
    return (
        ", which was cloned without its history: fetch it (git fetch --unshallow; in CI, a "
        "fetch depth of 0)"
    )


_CHANGED = (
    "diff",
    "--name-only",
    "-z",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--diff-filter=d",
    # Git would look into a submodule with the settings of that one, filters included.
    "--ignore-submodules=dirty",
)
_NEW = ("ls-files", "--others", "--exclude-standard", "-z")
_TRACKED = ("ls-files", "--stage", "-z")
_SUBMODULE = "160000 "


def _names(top: str, commit: str, below: Sequence[str]) -> Iterator[str]:
    filters = _filters_off(top)
    yield from _listed(top, (*filters, *_CHANGED, commit), below)
    yield from _listed(top, _NEW, below)
    for entry in _listed(top, _TRACKED, below):
        name = entry.partition("\t")[2]
        if entry.startswith(_SUBMODULE) and os.path.exists(  # noqa: PTH110
            f"{top}/{name}/.git"
        ):
            yield from (
                f"{name}/{inner}"
                for inner in _names(f"{top}/{name}", "HEAD", ["."])
            )


def _filters_off(top: str) -> tuple[str, ...]:
    """Options that switch off the programs by which the repository's settings would have git read
    its files.
    """
    done = _git(
        top, "config", "--name-only", "-z", "--get-regexp", r"^filter\."
    )
    drivers = {
        os.fsdecode(key).rpartition(".")[0]
        for key in done.stdout.split(b"\0")
        if b"." in key
    }
    settings = (
        ("clean", ""),
        ("smudge", ""),
        ("process", ""),
        ("required", "false"),
    )
    return tuple(
        part
        for driver in sorted(drivers)
        for key, value in settings
        for part in ("-c", f"{driver}.{key}={value}")
    )


def _listed(
    top: str, command: Sequence[str], below: Sequence[str]
) -> Iterator[str]:
    done = _git(top, "--literal-pathspecs", *command, "--", *below)
    if done.returncode:
        name = next(part for part in command if part in ("diff", "ls-files"))
        raise SinceError(f"{top}: git {name} failed: {_said(done)}")
    yield from (os.fsdecode(name) for name in done.stdout.split(b"\0") if name)


def _files(path: str) -> Iterable[str]:
    real = os.path.realpath(path)
    if not os.path.isdir(real):  # noqa: PTH112
        return (real,)
    return (
        os.path.realpath(f"{folder}/{name}")
        for folder, names in _walked(real)
        for name in names
    )


def _walked(folder: str) -> Iterator[tuple[str, list[str]]]:
    for here, folders, names in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        yield here, names


# Programs that the settings of a repository may name, to be run on the way.
_HARMLESS = (
    "--no-pager",
    "-c",
    "core.fsmonitor=",
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "protocol.allow=never",
)


def _git(folder: str, *args: str) -> subprocess.CompletedProcess[bytes]:
    # In its own language, without taking a lock that another git may want. In a hook, GIT_DIR names
    # the repository that is committed to, as seen from the folder that the hook runs in.
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }
    environment.pop("GIT_EXTERNAL_DIFF", None)
    if "GIT_WORK_TREE" not in environment:
        environment.pop("GIT_DIR", None)
    try:
        return subprocess.run(
            ["git", *_HARMLESS, *args],
            cwd=folder,
            env=environment,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        there = error.filename != folder
        raise SinceError(
            "git is not installed, or not on the PATH"
            if there
            else f"{folder} is not there"
        ) from None
    except OSError as error:
        raise SinceError(
            f"git cannot be run in {folder}: {error.strerror}"
        ) from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (
        lines[0].removeprefix("fatal: ")
        if lines
        else f"git ended with exit code {done.returncode}"
    )
