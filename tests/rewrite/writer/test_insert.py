"""New statements beside old ones."""

from __future__ import annotations

import pytest

from tests.rewrite.writer.spots import Case, after, before, check, swap

LOAD = 'if checkpoint.get("scaler"):\n    scaler.load_state_dict(checkpoint["scaler"])'
CASES: list[Case] = [
    ("before", "a\nb\n", [before("b", "x")], "a\nx\nb\n"),
    ("after", "a\nb\n", [after("a", "x")], "a\nx\nb\n"),
    (
        "before the first, under the file's comments",
        "# file\na\n",
        [before("a", "x")],
        "# file\nx\na\n",
    ),
    ("after the last, without line end", "a", [after("a", "x")], "a\nx"),
    ("after the last, with comments behind", "a\n\n# end\n", [after("a", "x")], "a\nx\n\n# end\n"),
    ("several keep their order", "a\n", [after("a", "x", "y"), after("a", "z")], "a\nx\ny\nz\n"),
    (
        "several before keep their order",
        "a\n",
        [before("a", "x", "y"), before("a", "z")],
        "x\ny\nz\na\n",
    ),
    (
        "blank lines and comments stay above",
        "a\n\n# b\nb\n",
        [before("b", "x")],
        "a\n\n# b\nx\nb\n",
    ),
    ("blank lines stay below", "a\n\nb\n", [after("a", "x")], "a\nx\n\nb\n"),
    ("trailing comments stay", "a  # a\nb\n", [after("a", "x")], "a  # a\nx\nb\n"),
    (
        "a footer stays below",
        "if c:\n    a\n    # end\nb\n",
        [after("a", "x")],
        "if c:\n    a\n    x\n    # end\nb\n",
    ),
    (
        "after a whole if/elif",
        "if c:\n    a\nelif d:\n    b\n",
        [after("if", "x")],
        "if c:\n    a\nelif d:\n    b\nx\n",
    ),
    (
        "after a compound statement whose body ends in a comment",
        "for c in d:\n    a\n    # end\nb\n",
        [after("for", "x")],
        "for c in d:\n    a\n    # end\nx\nb\n",
    ),
    (
        "before a compound statement",
        "# c\nif c:\n    a\n",
        [before("if", "x")],
        "# c\nx\nif c:\n    a\n",
    ),
    (
        "before a decorated function",
        "a\n\n@d\ndef f(): pass\n",
        [before("def", "x")],
        "a\n\nx\n@d\ndef f(): pass\n",
    ),
    (
        "inside an elif",
        "if c: a\nelif d: b\n",
        [after("b", "x")],
        "if c: a\nelif d:\n    b\n    x\n",
    ),
    ("before the first of a line", "a; b  # c\n", [before("a", "x")], "x\na; b  # c\n"),
    ("after the first of a line", "a; b  # c\n", [after("a", "x")], "a\nx\nb  # c\n"),
    ("before the last of a line", "a; b  # c\n", [before("b", "x")], "a\nx\nb  # c\n"),
    ("after the last of a line", "a; b  # c\n", [after("b", "x")], "a; b  # c\nx\n"),
    ("in a long line", "a; b; c; d\n", [after("b", "x")], "a; b\nx\nc; d\n"),
    ("a semicolon at the end stays", "a; b;\n", [before("b", "x")], "a\nx\nb;\n"),
    ("unusual spaces around semicolons stay", "a ;b ; c\n", [after("b", "x")], "a ;b\nx\nc\n"),
    ("a one-line suite opens", "if c: a  # d\n", [after("a", "x")], "if c:\n    a  # d\n    x\n"),
    (
        "a one-line suite, before",
        "if c: a  # d\n",
        [before("a", "x")],
        "if c:\n    x\n    a  # d\n",
    ),
    ("a one-line suite without line end", "if c: a", [after("a", "x")], "if c:\n    a\n    x"),
    (
        "a one-line suite, CRLF",
        "if c: a\r\nb\r\n",
        [after("a", "x")],
        "if c:\r\n    a\r\n    x\r\nb\r\n",
    ),
    (
        "a one-line function",
        "def f(): return a\n",
        [before("return", "x")],
        "def f():\n    x\n    return a\n",
    ),
    (
        "a block in a block of four",
        "def f():\n    a\n",
        [after("a", LOAD)],
        f"def f():\n    a\n    {LOAD.replace(chr(10), chr(10) + '    ')}\n",
    ),
    (
        "a block in a block of two",
        "def f():\n  a\nif c:\n    b\n",
        [after("a", "if c:\n    x\nelse:\n    if d:\n        y")],
        "def f():\n  a\n  if c:\n    x\n  else:\n    if d:\n      y\nif c:\n    b\n",
    ),
    (
        "a block in tabs",
        "def f():\n\ta\n",
        [after("a", "if c:\n    x")],
        "def f():\n\ta\n\tif c:\n\t\tx\n",
    ),
    ("a block with CRLF", "a\r\n", [after("a", "if c:\n    x")], "a\r\nif c:\r\n    x\r\n"),
    ("CRLF in an LF file", "a\r\nb\n", [after("b", "x")], "a\r\nb\nx\n"),
    ("a template with a comment", "a\n", [after("a", "# why\nx")], "a\n# why\nx\n"),
    ("a template of two statements", "a\n", [after("a", "x\ny")], "a\nx\ny\n"),
    ("an edit inside the anchor", "f(a)\n", [after("f", "x"), swap("a", "g($0)")], "f(g(a))\nx\n"),
    ("between two anchors", "a\nb\n", [after("a", "x"), before("b", "y")], "a\nx\ny\nb\n"),
    (
        "after a string over several lines",
        'def f():\n    """a\n b"""\n',
        [after('"""a', "x")],
        'def f():\n    """a\n b"""\n    x\n',
    ),
    (
        "after a continued line",
        "a = b \\\n  + c\nd\n",
        [after("a", "x")],
        "a = b \\\n  + c\nx\nd\n",
    ),
    (
        "in a class",
        "class C:\n    a = 1\n\n    b = 2\n",
        [before("b", "x = 0")],
        "class C:\n    a = 1\n\n    x = 0\n    b = 2\n",
    ),
    ("in finally", "try: a\nfinally: b\n", [after("b", "x")], "try: a\nfinally:\n    b\n    x\n"),
    (
        "in an async function",
        "async def f():\n  await a\n",
        [after("await", "x")],
        "async def f():\n  await a\n  x\n",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_insert(case: Case) -> None:
    check(case)
