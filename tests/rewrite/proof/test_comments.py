"""Comments are neither made nor lost."""

from __future__ import annotations

import pytest

from amp_migrate.rewrite.proof.check import check
from amp_migrate.rewrite.proof.comments import comments_of, difference
from amp_migrate.rewrite.proof.facts import Introduced


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("a = 1  # one\n", "a = 1\n", "`# one` would be lost"),
        ("a = 1\n", "# new\na = 1\n", "`# new` would stand there once more"),
        ("# one\na = 1\n", "# one\n# one\na = 1\n", "`# one` would stand there once more"),
        ("a = '#'  # one\n", "a = '#'\n", "`# one` would be lost"),
    ],
)
def test_a_difference_is_told(before: str, after: str, said: str) -> None:
    assert said in (difference(before, after) or "")
    assert [one.check for one in check(before, after, Introduced())] == ["comments"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# one\na = 1\n", "a = 1  # one\n"),
        ("f('#x')\n", "f('#' 'x')\n"),
        ("x = '''\n# no comment\n'''\n", "x = '\\n# no comment\\n'\n"),
        ("a = 1 #one \n", "a = 1 #one\n"),
    ],
)
def test_a_comment_may_move(before: str, after: str) -> None:
    assert difference(before, after) is None


def test_a_text_without_tokens_has_none() -> None:
    assert comments_of("a = (  # one\n") == comments_of("a = 1\n")
