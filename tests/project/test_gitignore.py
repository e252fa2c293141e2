"""`.gitignore` as git does it, and patterns that are made to cost time."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amp_migrate.project.discovery import discover
from amp_migrate.project.gitignore import left_out, patterns
from tests.cost import ends

Write = Callable[..., Path]


def taken(root: Path) -> list[str]:
    return [one.path.relative_to(root).as_posix() for one in discover([root])]


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ("*\n!*/\n!*.py\n", ["a.py", "lib/b.py", "src/deep/c.py"]),
        ("*.py\n!lib/\n", []),
        ("lib/\n!lib/\n", ["a.py", "lib/b.py", "src/deep/c.py"]),
        ("lib\n!lib/b.py\n", ["a.py", "src/deep/c.py"]),
        ("/*\n!/src\n", ["src/deep/c.py"]),
        ("**/deep\n", ["a.py", "lib/b.py"]),
        ("src/**/c.py\n", ["a.py", "lib/b.py"]),
        ("src/**\n!src/deep/\n!src/deep/c.py\n", ["a.py", "lib/b.py", "src/deep/c.py"]),
        ("deep/c.py\n", ["a.py", "lib/b.py", "src/deep/c.py"]),
        ("[ab].py\n", ["src/deep/c.py"]),
        ("[!ab].py\n", ["a.py", "lib/b.py"]),
        ("?.py \r\n", []),
        ("\\#x\n!\na.py\\\n", ["a.py", "lib/b.py", "src/deep/c.py"]),
    ],
)
def test_patterns(tmp_path: Path, write: Write, lines: str, kept: list[str]) -> None:
    write(".gitignore", lines)
    for name in ("a.py", "lib/b.py", "src/deep/c.py"):
        write(name)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "*.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert taken(tmp_path) == sorted(listed) == kept


# What git makes of `a**/b`, which its manual calls two plain asterisks, depends on where it has its
# strings in memory: its matcher compares pointers into the pattern and into the path.
_UNSETTLED = re.compile(r"[^/!]\*\*")
_WORDS = (
    st.lists(
        st.sampled_from(["a", "b", "*", "?", "**", "/", "[ab]", "[!a]", "\\b", "a.py"]),
        min_size=1,
        max_size=6,
    )
    .map("".join)
    .filter(lambda word: not _UNSETTLED.search(word))
)
_LINES = st.lists(st.tuples(st.sampled_from(["", "!"]), _WORDS).map("".join), max_size=4)
_PATHS = ("a.py", "b", "a/b", "a/a.py", "b/a/b", "a/b/a/a.py", "ab/b.py")


@settings(max_examples=25, deadline=None)
@given(lines=_LINES)
def test_as_git(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".gitignore").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", *_PATHS],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    read = patterns(root, lines)
    rules = () if read is None else (read,)

    def ignored(path: Path) -> bool:
        above = [up for up in reversed(path.parents) if up != root and up.is_relative_to(root)]
        return any(left_out(up, True, rules) for up in above) or left_out(path, False, rules)

    assert [name for name in _PATHS if ignored(root / name)] == done.stdout.split()


@pytest.mark.parametrize(
    "line", ["*a" * 120 + "b", "**/" * 60 + "b", "/".join(["**", "a"] * 40) + "/b"]
)
def test_patterns_that_are_made_to_cost_time(tmp_path: Path, line: str) -> None:
    read = patterns(tmp_path, [line])
    assert read is not None
    long = tmp_path / "/".join(["a" * 120] + ["a"] * 60)
    with ends():
        assert read.decide(long, False) is None
