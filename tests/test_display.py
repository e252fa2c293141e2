"""What a terminal, or the runner of a build, would obey is shown and not done."""

from __future__ import annotations

import pytest

from amp_migrate.display import escaped, shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain näme 名.py", "plain näme 名.py"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("txt.\u202eyp", "txt.\\u202eyp"),
        ("\u2028\u2066", "\\u2028\\u2066"),
        ("a##[error]b", "a#\\x23[error]b"),
        ("\udc80", "\\udc80"),
    ],
)
def test_escaped(text: str, said: str) -> None:
    assert escaped(text) == said


def test_what_is_kept() -> None:
    assert escaped("\tx\n", keep="\t") == "\tx\\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("::error::x.py", "./::error::x.py"),
        (" ::error::x.py", "./ ::error::x.py"),
        ("##[error]x.py", "./#\\x23[error]x.py"),
        ("a::b.py", "a::b.py"),
        ("a\n::error::x.py", "a\\n::error::x.py"),
    ],
)
def test_names_are_no_commands(name: str, said: str) -> None:
    assert shown(name) == said
