"""In the blocks around the edits, what they do not touch is not read either."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_migrate.rewrite.edits import (
    AddDecorator,
    AddParameter,
    InsertAfter,
    InsertBefore,
    Template,
)
from amp_migrate.rewrite.writer import apply
from amp_migrate.rewrite.writer.skeleton import Skeleton
from tests.cost import calls
from tests.rewrite.writer.test_skeleton import LOOP, span, wrapped

LONG = "a_call_that_is_long_enough(to_be, left_out, of_it)\n"
BESIDE = [
    "def f(a):\n    return [\n        a,\n    ]\n    # in the block\n\n\n# of the next\n",
    "@decorated\n@twice(\n    3\n)\nclass A:\n    '''Doc.'''\n    x = 1; y = 2  # two\n",
    "if aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: b;\n",
    "a = 1; b = (\n    2\n); c = 3333333333333333333333333  # ä\n",
    "a = 'long enough to be left out of it' \\\n    'and more'\n",
    "match a:\n    case 1:\n        b\n    case _:\n        cccccccccccccccccccccccccccccccc\n",
    "try:\n    aaaaaaaaaaaaaaaaaaaaa\nexcept E:\n    bbbbbbbbbbbbbbbb\nfinally:\n    c\n",
    "if a:\n    bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\nelif c:\n    d\nelse:\n    e\n",
]
AROUND = [
    "def outer(a):\n{}",
    "class A:\n    def outer(a):\n{}\n    def next(a):\n        " + LONG,
    "if a:\n    " + LONG + "elif b:\n{}\nelif c:\n    " + LONG + "else:\n    " + LONG,
    "try:\n    " + LONG + "except E:\n{}\n    # deeper than what follows\nelse:\n    " + LONG,
    "match a:\n    case 1:\n        " + LONG + "    case 2:\n{}",
    "for a in b:\n{}\nelse:\n    " + LONG,
]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("beside", BESIDE)
def test_what_stands_beside_comes_back(beside: str, around: str) -> None:
    done = LOOP.replace("    loss = f(x)\n", "    with amp:\n        loss = f(x)\n")
    for inner in (beside + LOOP, LOOP + beside, beside + LOOP + beside):
        text, after = (
            around.replace("{}", textwrap.indent(one, " " * 8))
            for one in (inner, inner.replace(LOOP, done))
        )
        after = after.replace(" " * 20 + "loss = f", " " * 16 + "loss = f")
        unit = wrapped(text, "loss = f(x)", "loss = f(x)")
        assert unit.replace(" ", "") == after.replace(" ", "")
        assert "a_call_that" not in Skeleton(text, [span(text, "loss = f(x)")], False).text


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    if a:\n        " + LONG + "        # deep\n    # own\n    c()\n",
        "def f():\n    c()\n    if a:\n        "
        + LONG
        + "            # deep\n    # own\n# below\nd()\n",
        "def f():\n\tif a:\n\t\t" + LONG + "\t\t# deep\n\t# own\n\tc()\n",
        "def f():\n    " + LONG + "  # shallow\n    # own\n    c()\n",
    ],
)
def test_comments_stay_where_they_are(text: str) -> None:
    insert = InsertBefore(span(text, "c()"), (Template("b()"),))
    unit = "\t" if "\t" in text else "    "
    assert apply(text, [insert]) == text.replace("c()", f"b()\n{unit}c()")


def test_what_is_put_above_comments_stays_above_them() -> None:
    text = "def f():\n    if a:\n        " + LONG + "        # deep\n    # own\n    c()\n"
    insert = InsertBefore(span(text, "c()"), (Template("b()"),), above=True)
    assert apply(text, [insert]) == text.replace("    # own", "    b()\n    # own")


def test_what_stands_behind_a_loop_whose_end_is_left_out() -> None:
    loop = f"for x in y:\n    step(x)\n    if x:\n        {LONG}        # deep\n"
    text = f"{loop}\nd()\n"
    insert = InsertAfter(span(text, loop.rpartition("\n        #")[0]), (Template("b()"),))
    assert apply(text, [insert]) == f"{loop}b()\n\nd()\n"


@pytest.mark.parametrize(
    "edit", [lambda at: AddParameter(at, "scaler"), lambda at: AddDecorator(at, "custom")]
)
def test_a_header_is_changed_without_its_body(edit: object) -> None:
    text = f"class A:\n    def f(self, x):\n        {LONG}        g(x)\n"
    at = span(text, text[text.index("def") : -1])
    assert callable(edit)
    done = apply(text, [edit(at)])
    assert done in (
        text.replace("x):", "x, scaler):"),
        text.replace("    def", "    @custom\n    def"),
    )


def test_a_long_function_around_the_loop_costs_little() -> None:
    many = "    call(with_many, arguments, [1, 2, 3])\n" * 1_000
    text = f"def f(a):\n{many}    c()\n{many}"
    insert = InsertAfter(span(text, "c()"), (Template("d()"),))
    assert apply(text, [insert]) == text.replace("c()\n", "c()\n    d()\n")
    assert calls(lambda: apply(text, [insert])) < calls(lambda: cst.parse_module(text)) / 2
