"""Statements under a `with`: what moves inside, what stays above, what must not change."""

from __future__ import annotations

import pytest

from tests.rewrite.writer.spots import Case, after, applied, before, block, check, swap, wrap

CASES: list[Case] = [
    ("one statement", "a = 1\n", [wrap("a = 1")], "with amp:\n    a = 1\n"),
    ("no line end at the end", "a = 1", [wrap("a = 1")], "with amp:\n    a = 1"),
    ("a run", "a\nb\nc\nd\n", [wrap("b", "c")], "a\nwith amp:\n    b\n    c\nd\n"),
    (
        "a comment in the run stays in it",
        "a\n# two\nb\n",
        [wrap("a", "b")],
        "with amp:\n    a\n    # two\n    b\n",
    ),
    ("a blank line in the run stays", "a\n\nb\n", [wrap("a", "b")], "with amp:\n    a\n\n    b\n"),
    (
        "a line of spaces keeps them",
        "if x:\n    a\n    \n  \n    if y:\n        b\n        \n        c\n",
        [wrap("a", "if y")],
        (
            "if x:\n    with amp:\n        a\n    \n  \n        if y:\n            b\n        \n     "
            "       c\n"
        ),
    ),
    (
        "an empty line in brackets stays",
        "a(\n\n    b)\n",
        [wrap("a")],
        "with amp:\n    a(\n\n        b)\n",
    ),
    (
        "CRLF and a blank line",
        "a\r\n\r\nb\r\n",
        [wrap("a", "b")],
        "with amp:\r\n    a\r\n\r\n    b\r\n",
    ),
    (
        "blank lines in the run stay",
        "a\n\n\nb\n",
        [wrap("a", "b")],
        "with amp:\n    a\n\n\n    b\n",
    ),
    (
        "trailing comments stay",
        "a  # one\nb # two\n",
        [wrap("a", "b")],
        "with amp:\n    a  # one\n    b # two\n",
    ),
    ("a comment behind the run stays out", "a\n# end\n", [wrap("a")], "with amp:\n    a\n# end\n"),
    (
        "a shebang stays on top",
        "#!/bin/python\na\n",
        [wrap("a")],
        "#!/bin/python\nwith amp:\n    a\n",
    ),
    (
        "a coding cookie stays on top",
        "# coding: utf-8\na\n",
        [wrap("a")],
        "# coding: utf-8\nwith amp:\n    a\n",
    ),
    (
        "a comment above the first statement moves in",
        "# one\na\n",
        [wrap("a")],
        "with amp:\n    # one\n    a\n",
    ),
    (
        "a comment set apart stays above",
        "x\n# far\n\n# near\n# too\na\n",
        [wrap("a")],
        "x\n# far\n\nwith amp:\n    # near\n    # too\n    a\n",
    ),
    ("blank lines stay above", "x\n\n\na\nb\n", [wrap("a")], "x\n\n\nwith amp:\n    a\nb\n"),
    (
        "a header comment set apart stays",
        "# file\n\na\n",
        [wrap("a")],
        "# file\n\nwith amp:\n    a\n",
    ),
    (
        "in a two-space block of a four-space file",
        """
        def f():
            return 1
        def g():
            return 1
        def h():
          a
          b
        """,
        [wrap("a")],
        """
        def f():
            return 1
        def g():
            return 1
        def h():
          with amp:
            a
          b
        """,
    ),
    (
        "at module level the file's prevailing unit",
        """
        if x:
            pass
        def f():
          if y:
            pass
        a
        """,
        [wrap("a")],
        """
        if x:
            pass
        def f():
          if y:
            pass
        with amp:
          a
        """,
    ),
    ("tabs", "def f():\n\ta\n\tb\n", [wrap("a", "b")], "def f():\n\twith amp:\n\t\ta\n\t\tb\n"),
    (
        "tabs beside spaces",
        "if x:\n    pass\ndef f():\n\ta\n\tb\n",
        [wrap("b")],
        "if x:\n    pass\ndef f():\n\ta\n\twith amp:\n\t\tb\n",
    ),
    ("CRLF", "if x:\r\n  a\r\n  b\r\n", [wrap("a")], "if x:\r\n  with amp:\r\n    a\r\n  b\r\n"),
    (
        "mixed line ends: LF beside CRLF",
        "x\r\na\ny\r\n",
        [wrap("a")],
        "x\r\nwith amp:\n    a\ny\r\n",
    ),
    ("mixed line ends: CRLF beside LF", "x\na\r\ny\n", [wrap("a")], "x\nwith amp:\r\n    a\r\ny\n"),
    ("a form feed above stays above", "x\n\x0c\na\n", [wrap("a")], "x\n\x0c\nwith amp:\n    a\n"),
    ("non-ASCII before it", "é = 'ü'\nλ = é\n", [wrap("λ = é")], "é = 'ü'\nwith amp:\n    λ = é\n"),
    (
        "a string over several lines keeps its bytes",
        'a = """one\n  two\n"""\n',
        [wrap("a")],
        'with amp:\n    a = """one\n  two\n"""\n',
    ),
    (
        "a continued string keeps its bytes",
        "a = 'one\\\n  two'\n",
        [wrap("a")],
        "with amp:\n    a = 'one\\\n  two'\n",
    ),
    (
        "a backslash continuation moves along",
        "if x:\n    a = b + \\\n        c\n",
        [wrap("a")],
        "if x:\n    with amp:\n        a = b + \\\n            c\n",
    ),
    (
        "open brackets move along",
        """
        loss = f(a,
                 b,  # two
                 # three
                 c)
        """,
        [wrap("loss")],
        """
        with amp:
            loss = f(a,
                     b,  # two
                     # three
                     c)
        """,
    ),
    (
        "a compound statement",
        """
        def f():
            # each
            for x in y:
                a

                # last
            # not this one
            b
        """,
        [wrap("for")],
        """
        def f():
            with amp:
                # each
                for x in y:
                    a

                    # last
            # not this one
            b
        """,
    ),
    (
        "the footer of the block stays out",
        "def f():\n    a\n    # b\n\n    # c\n",
        [wrap("a")],
        "def f():\n    with amp:\n        a\n    # b\n\n    # c\n",
    ),
    ("the first of a line", "a; b  # c\n", [wrap("a")], "with amp:\n    a\nb  # c\n"),
    ("the last of a line", "# d\na; b  # c\n", [wrap("b")], "# d\na\nwith amp:\n    b  # c\n"),
    ("the middle of a line", "a; b; c; d;\n", [wrap("b", "c")], "a\nwith amp:\n    b; c\nd;\n"),
    ("a whole line of two", "a; b\n", [wrap("a", "b")], "with amp:\n    a; b\n"),
    ("over line ends", "a; b\nc; d\n", [wrap("b", "c")], "a\nwith amp:\n    b\n    c\nd\n"),
    (
        "a one-line suite opens",
        "for x in y: a  # b\n",
        [wrap("a")],
        "for x in y:\n    with amp:\n        a  # b\n",
    ),
    (
        "a one-line suite with two statements",
        "if x: a; b\nelse: c\n",
        [wrap("a")],
        "if x:\n    with amp:\n        a\n    b\nelse: c\n",
    ),
    (
        "a one-line suite in a two-space block",
        "def f():\n  if x: a\n  b\nclass C:\n    d\n",
        [wrap("a")],
        "def f():\n  if x:\n    with amp:\n      a\n  b\nclass C:\n    d\n",
    ),
    (
        "a decorated function",
        "# f\n@d(1)\ndef f(): pass\n",
        [wrap("def")],
        "with amp:\n    # f\n    @d(1)\n    def f(): pass\n",
    ),
    (
        "an else",
        "if x:\n    a\nelse:\n    b\n",
        [wrap("b")],
        "if x:\n    a\nelse:\n    with amp:\n        b\n",
    ),
    (
        "a match case",
        "match x:\n    case 1:\n        a\n",
        [wrap("a")],
        "match x:\n    case 1:\n        with amp:\n            a\n",
    ),
    (
        "a handler",
        "try:\n    a\nexcept E:\n    b\n",
        [wrap("b")],
        "try:\n    a\nexcept E:\n    with amp:\n        b\n",
    ),
    (
        "two in one block",
        "a\nb\nc\n",
        [wrap("c"), wrap("a")],
        "with amp:\n    a\nb\nwith amp:\n    c\n",
    ),
    (
        "two neighbours",
        "a\n# c\nb\n",
        [wrap("a"), wrap("b")],
        "with amp:\n    a\nwith amp:\n    # c\n    b\n",
    ),
    (
        "one in another",
        "a\nb\nc\n",
        [wrap("b", "b", "inner"), wrap("a", "c", "outer")],
        "with outer:\n    a\n    with inner:\n        b\n    c\n",
    ),
    (
        "two that start together",
        "a\nb\n",
        [wrap("a", "a", "inner"), wrap("a", "b", "outer")],
        "with outer:\n    with inner:\n        a\n    b\n",
    ),
    (
        "two that end together",
        "a\nb\n",
        [wrap("b", "b", "inner"), wrap("a", "b", "outer")],
        "with outer:\n    a\n    with inner:\n        b\n",
    ),
    (
        "two around the same: the first given is outside",
        "a\n",
        [wrap("a", "a", "outer"), wrap("a", "a", "inner")],
        "with outer:\n    with inner:\n        a\n",
    ),
    (
        "one inside a compound statement of the other",
        "for x in y:\n    a\n    b\n",
        [wrap("for", None, "outer"), wrap("a", None, "inner")],
        "with outer:\n    for x in y:\n        with inner:\n            a\n        b\n",
    ),
    ("an edit inside", "a = b\n", [wrap("a"), swap("b", "f($0)")], "with amp:\n    a = f(b)\n"),
    (
        "inserts at its ends come inside",
        "# c\na\nb\n",
        [wrap("a", "b"), before("a", "p"), after("b", "q")],
        "with amp:\n    # c\n    p\n    a\n    b\n    q\n",
    ),
    (
        "a comment at column 0",
        "if x:\n# c\n    a\n",
        [wrap("a")],
        "if x:\n# c\n    with amp:\n        a\n",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_wrap(case: Case) -> None:
    check(case)


def test_blank_lines_of_a_wrapped_block_get_no_spaces() -> None:
    text = block("""
        def f():
            a

            b
    """)
    assert "\n\n" in applied(text, wrap("a", "b"))


def test_header_over_several_items() -> None:
    header = 'torch.autocast("cuda", dtype=torch.float16), torch.no_grad()'
    assert applied("a\n", wrap("a", None, header)) == f"with {header}:\n    a\n"
