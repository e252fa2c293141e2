"""One JSON value respelled in place, the manner of the file kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amp_migrate.project.json_spans import items, members, respelled


def test_positions() -> None:
    text = ' { "a" : [1, "x,]", {}] ,"b":{"c":null}}'
    found = dict(members(text, 0))
    assert {name: text[one.start : one.end] for name, one in found.items()} == {
        "a": '[1, "x,]", {}]',
        "b": '{"c":null}',
    }
    assert [text[one.start : one.end] for one in items(text, found["a"].start)] == [
        "1",
        '"x,]"',
        "{}",
    ]
    assert list(members("{}", 0)) == list(items(" [ ] ", 0)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ("{1: 2}", "a member's name"),
        ('{"a" 1}', "Expecting ':'"),
        ('{"a": 1 "b": 2}', "Expecting ','"),
        ('{"a": 1,}', "Expecting value"),
        ('{"a": tru}', "Expecting value"),
        ("[]", "Expecting '{'"),
        ('{"a": "\n"}', "Invalid control character"),
        ("", "Expecting '{'"),
    ],
)
def test_what_is_no_object(text: str, message: str) -> None:
    with pytest.raises(json.JSONDecodeError, match=message):
        list(members(text, 0))


@pytest.mark.parametrize(
    ("raw", "new", "expected"),
    [
        ('"a\\nb"', "a\nc\n", '"a\\nc\\n"'),
        ('["a\\n", "b"]', "a\nc\nb", '["a\\n", "c\\n", "b"]'),
        ('["a"]', "a\nb", '["a\\n", "b"]'),
        ('["a",\n  "b"]', "ab\nc", '["ab\\n",\n  "c"]'),
        ('[\n   "é\\n",\n   "b"\n  ]', "é = 1\n", '[\n   "é = 1\\n"\n  ]'),
        ('["\\u00e9\\n"]', "é\né2", '["\\u00e9\\n", "\\u00e92"]'),
        ('["\\u00E9\\n"]', "é = 1", '["\\u00E9 = 1"]'),
        ('["a\\/b"]', "a/c", '["a\\/c"]'),
        ('["\\u003c"]', "<=", '["\\u003c="]'),
        ('["\\ud83d\\ude00"]', "😀!", '["\\ud83d\\ude00!"]'),
        ('["a\\tb"]', 'a\t"\\', '["a\\t\\"\\\\"]'),
        ('["x\\f\\n","y"]', "x\f\ny\nz", '["x\\f\\n","y\\n","z"]'),
        ('["x\\f", "\\n", "y"]', "x\f\nz", '["x\\f", "\\n", "z"]'),
    ],
)
def test_the_manner_is_kept(raw: str, new: str, expected: str) -> None:
    assert respelled(raw, new) == expected
    assert "".join(json.loads(expected)) == new


@pytest.mark.parametrize("raw", ['["/\\/"]', '"é\\u00e9"', "[]"])
def test_no_manner(raw: str) -> None:
    assert respelled(raw, "x") is None


LINES = st.lists(
    st.text(st.sampled_from("ab \té漢😀\\\"/'\x0c\u2028\r"), max_size=5).map(
        lambda line: line + "\n"
    ),
    min_size=1,
)


@given(LINES, LINES, st.booleans(), st.sampled_from([None, 0, 1, 2, "\t"]), st.booleans())
def test_any_lines(
    old: list[str], new: list[str], ascii_only: bool, indent: int | str | None, listed: bool
) -> None:
    written: object = "".join(old).splitlines(keepends=True) if listed else "".join(old)
    raw = json.dumps(written, ensure_ascii=ascii_only, indent=indent)
    assert respelled(raw, "".join(old)) == raw
    wanted = "".join(new)
    got = respelled(raw, wanted)
    assert got is not None
    assert "".join(json.loads(got)) == wanted
    assert isinstance(json.loads(got), list) == listed
