"""What the edits do not touch is not read, and comes back as it was."""

from __future__ import annotations

import libcst as cst
import pytest

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import (
    AddImport,
    InsertAfter,
    ReplaceExpression,
    Template,
    WrapStatements,
)
from amp_migrate.rewrite.writer import apply
from amp_migrate.rewrite.writer.skeleton import Skeleton
from tests.cost import calls

LOOP = "for x in y:\n    loss = f(x)\n    loss.backward()\n"


def span(text: str, code: str) -> Span:
    start = text.encode().index(code.encode())
    return Span(start, start + len(code.encode()))


def wrapped(text: str, first: str, last: str) -> str:
    return apply(text, [WrapStatements(span(text, first), span(text, last), "amp")])


@pytest.mark.parametrize(
    "beside",
    [
        "def f(a):\n    return [\n        a,\n    ]\n    # in the block\n\n\n# of the next\n",
        "@decorated\n@twice(\n    3\n)\nclass A:\n    '''Doc.'''\n    x = 1; y = 2  # two\n",
        "s = '''\n\x0cfor x in y:\n    pass\n'''\n",
        "if a: b;\n",
        "a = 1; b = (\n    2\n); c = 3  # ä\n",
        "a = 'long enough to be left out of it' \\\n    'and more'\n",
        "\x0cdef g():\n    pass\n\x0c\n\n",
        "x = '\N{SNOWMAN}' * 30 + '\N{PILE OF POO}'\r\ny = [\r\n    1, 2, 3, 4, 5, 6, 7, 8, 9, 10\r\n]\r\n",
        "match a:\n    case 1:\n        b\n    case _:\n        cccccccccccccccccccccccccccccccc\n",
        "try:\n    aaaaaaaaaaaaaaaaaaaaa\nexcept E:\n    bbbbbbbbbbbbbbbb\nfinally:\n    c\n",
    ],
)
def test_what_stands_beside_comes_back(beside: str) -> None:
    done = LOOP.replace("    loss = f(x)\n", "    with amp:\n        loss = f(x)\n")
    for text in (beside + LOOP, LOOP + beside, beside + LOOP + beside):
        assert wrapped(text, "loss = f(x)", "loss = f(x)") == text.replace(LOOP, done)
        assert cst.parse_module(Skeleton(text, [span(text, "loss = f(x)")], False).text)


def test_what_a_wrap_spans_is_touched() -> None:
    text = "first(1)\ndef f():\n    return 'a long function between the two statements'\nlast(1)\n"
    inner = "".join(f"    {line}\n" for line in text.splitlines())
    assert wrapped(text, "first(1)", "last(1)") == f"with amp:\n{inner}"


def test_comments_in_the_block_above_stay_there() -> None:
    text = (
        "if a:\n    bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb()\n    # still above\n# below\nc()\n"
    )
    assert wrapped(text, "c()", "c()") == text.replace(
        "# below\nc()", "with amp:\n    # below\n    c()"
    )


def test_the_indentation_of_the_whole_module_counts() -> None:
    text = "def f():\n  if a:\n    return bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n\nc()\n"
    assert wrapped(text, "c()", "c()") == text.replace("c()", "with amp:\n  c()")


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("\x0cc()\n", "with amp:\n\x0c    c()\n"),
        ("a()\n \x0cc()\nb()\n", "a()\nwith amp:\n \x0c    c()\nb()\n"),
        (
            "if a:\n\x0c    c()\n\x0celse:\n    b()\n",
            "if a:\n    with amp:\n\x0c        c()\n\x0celse:\n    b()\n",
        ),
    ],
)
def test_form_feeds_in_front_of_statements(text: str, done: str) -> None:
    assert wrapped(text, "c()", "c()") == done


def test_imports_find_their_place() -> None:
    long = "def f():\n    return 'long enough to be left out'\n"
    text = f"'''Doc.'''\nimport os\n\n{long}\nfrom torch import nn\n"
    assert apply(text, [AddImport("torch")]) == text.replace(
        "from torch", "import torch\nfrom torch"
    )
    assert apply(long, [AddImport("torch")]) == f"import torch\n\n{long}"


def test_names_of_the_module_are_not_taken() -> None:
    text = f"_left_out_1_0_ = 'long enough to be left out of the skeleton'\n{LOOP}"
    insert = InsertAfter(span(text, "loss.backward()"), (Template("step()"),))
    assert apply(text, [insert]) == text + "    step()\n"


def test_a_table_beside_the_loop_costs_little() -> None:
    text = "T = [\n" + "    ('key', 1, {'a': 0.5, 'b': [1, 2, 3]}),\n" * 1_000 + "]\n" + LOOP
    edit = ReplaceExpression(span(text, "f(x)"), Template("g(x)"))
    assert apply(text, [edit]) == text.replace("f(x)", "g(x)")
    whole = calls(lambda: cst.parse_module(text))
    assert calls(lambda: apply(text, [edit])) < whole / 20
