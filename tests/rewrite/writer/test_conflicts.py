"""Edits that cannot both hold, and those that only look so."""

from __future__ import annotations

import pytest

from amp_migrate.rewrite.writer import EditConflict, SpanNotFound
from tests.rewrite.writer.spots import (
    Maker,
    after,
    applied,
    argument,
    before,
    bring,
    entry,
    parameter,
    replace,
    swap,
    wrap,
)

TEXT = "f(a, {1: b})\ng(c)\nh(d)\nif e:\n    i\nelif j: k\n"
CONFLICTS: list[tuple[str, list[Maker]]] = [
    ("wraps that cross", [wrap("f", "g"), wrap("g", "h")]),
    ("a wrap across a block", [wrap("h", "i")]),
    ("two replacements of an expression", [swap("a", "x"), swap("a", "y")]),
    ("two replacements of a statement", [replace("g", "x"), replace("g", "y")]),
    ("a replaced and a removed statement", [replace("g", "x"), replace("g")]),
    ("an edit in what is dropped", [replace("g", "x"), swap("c", "y")]),
    ("an edit in an expression that is dropped", [swap("f(a, {1: b})", "x"), swap("a", "y")]),
    ("an edit outside the parts", [swap("f(a, {1: b})", "$0", "a"), swap("b", "y")]),
    ("an argument for a call that is dropped", [swap("g(c)", "x"), argument("g(c)")]),
    ("an insert in what is dropped", [replace("if", "x"), after("i", "y")]),
    ("a wrap in what is dropped", [replace("if"), wrap("i")]),
    ("an insert beside a part", [replace("if", "$0", parts=("i",)), after("i", "y")]),
    ("two values of an argument", [argument("g(c)", "s", "1"), argument("g(c)", "s", "2")]),
    ("two values of an entry", [entry("{1: b}", "s", "1"), entry("{1: b}", "s", "2")]),
]


@pytest.mark.parametrize(
    "makers", [makers for _, makers in CONFLICTS], ids=[name for name, _ in CONFLICTS]
)
@pytest.mark.parametrize("order", [1, -1])
def test_conflict(makers: list[Maker], order: int) -> None:
    with pytest.raises(EditConflict):
        applied(TEXT, *makers[::order])


def test_both_edits_are_named() -> None:
    with pytest.raises(EditConflict, match=r"(?s)ReplaceStatement.*ReplaceExpression"):
        applied(TEXT, swap("c", "y"), replace("g", "x"))


def test_two_defaults_of_a_parameter() -> None:
    with pytest.raises(EditConflict, match="AddParameter"):
        applied("def f(): pass\n", parameter("def", "s"), parameter("def", "s", "1"))


HARMONY: list[tuple[str, list[Maker], str]] = [
    ("the same twice", [swap("c", "x"), swap("c", "x")], TEXT.replace("c", "x")),
    ("the same wrap twice", [wrap("g"), wrap("g")], TEXT.replace("g(c)", "with amp:\n    g(c)")),
    ("the same import twice", [bring("z"), bring("z")], "import z\n\n" + TEXT),
    (
        "the same insert twice",
        [before("g", "x"), before("g", "x")],
        TEXT.replace("g(c)", "x\nx\ng(c)"),
    ),
    (
        "wraps that touch",
        [wrap("g"), wrap("h")],
        TEXT.replace("g(c)\nh(d)", "with amp:\n    g(c)\nwith amp:\n    h(d)"),
    ),
    (
        "a statement and what is around it",
        [replace("g", "x"), wrap("g")],
        TEXT.replace("g(c)", "with amp:\n    x"),
    ),
    (
        "a removed statement alone in a wrap",
        [replace("g"), wrap("g")],
        TEXT.replace("g(c)", "with amp:\n    pass"),
    ),
    (
        "an argument of a part",
        [replace("g", "x = $0", parts=("g(c)",)), argument("g(c)", "s", "1")],
        TEXT.replace("g(c)", "x = g(c, s=1)"),
    ),
    (
        "an insert within a part",
        [replace("if", "$0", parts=("if e:\n    i\nelif j: k",)), after("i", "y")],
        TEXT.replace("    i\n", "    i\n    y\n"),
    ),
]


@pytest.mark.parametrize(
    ("makers", "output"), [case[1:] for case in HARMONY], ids=[case[0] for case in HARMONY]
)
def test_no_conflict(makers: list[Maker], output: str) -> None:
    assert applied(TEXT, *makers) == output


@pytest.mark.parametrize(
    "maker", [wrap("elif"), before("elif", "x"), after("elif", "x"), replace("elif", "x")]
)
def test_an_elif_is_no_statement_of_a_block(maker: Maker) -> None:
    with pytest.raises(SpanNotFound, match="the If at byte"):
        applied(TEXT, maker)


@pytest.mark.parametrize("maker", [argument("a"), entry("a"), parameter("g")])
def test_an_addition_to_something_else(maker: Maker) -> None:
    with pytest.raises(SpanNotFound, match="Add"):
        applied(TEXT, maker)
