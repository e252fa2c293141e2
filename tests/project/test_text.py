"""Decoding keeps every byte, or says where and why it cannot."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amp_migrate.project.errors import SourceError
from amp_migrate.project.text import decode


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"", "", "utf-8"),
        (b"x = 1", "x = 1", "utf-8"),
        (b"x\r\ny\nz\r\n", "x\r\ny\nz\r\n", "utf-8"),
        (b"\tx\x0c\n", "\tx\x0c\n", "utf-8"),
        ("é = 1\n".encode(), "é = 1\n", "utf-8"),
        ("\u2028 = 1\n".encode(), "\u2028 = 1\n", "utf-8"),
        (codecs.BOM_UTF8 + b"x\n", "x\n", "utf-8"),
        (codecs.BOM_UTF8 + b"# coding: utf-8\n", "# coding: utf-8\n", "utf-8"),
        (b"# -*- coding: latin-1 -*-\n# \xe9\n", "# -*- coding: latin-1 -*-\n# é\n", "iso-8859-1"),
        (b"#!/bin/python\n# vim: set fileencoding=cp1251 :\n# \xe9\n", None, "cp1251"),
        (
            "# coding: shift_jis\n# 漢字\n".encode("shift_jis"),
            "# coding: shift_jis\n# 漢字\n",
            "shift_jis",
        ),
    ],
)
def test_round_trip(data: bytes, text: str | None, encoding: str) -> None:
    decoded = decode(data)
    assert decoded.encoding == encoding
    assert text is None or decoded.text == text
    assert decoded.encode(decoded.text) == data


def test_new_text_keeps_mark_and_encoding() -> None:
    decoded = decode(codecs.BOM_UTF8 + b"x\n")
    assert decoded.encode("y\n") == codecs.BOM_UTF8 + b"y\n"
    latin = decode(b"# coding: latin-1\n\xe9\n")
    assert latin.encode("é") == b"\xe9"


@pytest.mark.parametrize(
    ("data", "line", "column", "part"),
    [
        (b"x = 1\ny = '\xff'\n", 2, 6, "byte 0xff is no utf-8 text"),
        (b"# coding: ascii\nx = '\xe9'\n", 2, 6, "no ascii text"),
        (b"# coding: klingon\n", 1, 1, "klingon"),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", 1, 1, "utf-8"),
        (b"# coding: rot13\nx\n", 1, 1, "no text encoding"),
        (b"# coding: utf-16\nxx\n", 1, 1, "save it as UTF-8"),
        (b"a\rb\r", 1, 2, "carriage return"),
        (b"a\nbc\rd\n", 2, 3, "carriage return"),
        (b"a\n\0\n", 2, 1, "null byte"),
        ("x = 1\n".encode("utf-16"), 1, 1, "save the file as UTF-8"),
        ("x = 1\n".encode("utf-16-le"), 1, 2, "null byte"),
    ],
)
def test_rejects_with_the_place(data: bytes, line: int, column: int, part: str) -> None:
    with pytest.raises(SourceError) as caught:
        decode(data)
    assert part in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.at("a.py") == f"a.py:{line}:{column}: {caught.value}"


@given(st.binary(max_size=60))
def test_never_loses_a_byte(data: bytes) -> None:
    try:
        decoded = decode(data)
    except SourceError:
        return
    assert decoded.encode(decoded.text) == data


@given(
    st.text(max_size=60),
    st.sampled_from(["utf-8", "latin-1", "cp1252", "utf-7", "gb18030", "iso2022_jp"]),
)
def test_never_loses_a_byte_with_a_cookie(text: str, encoding: str) -> None:
    data = f"# coding: {encoding}\n".encode() + text.encode(encoding, "ignore")
    try:
        decoded = decode(data)
    except SourceError:
        return
    assert decoded.encode(decoded.text) == data
