"""Statements and expressions that become others, with parts of the old ones in them."""

from __future__ import annotations

import pytest

from amp_migrate.rewrite.edits import InsertBefore, Template
from tests.rewrite.writer.spots import (
    Case,
    Maker,
    after,
    at,
    before,
    check,
    replace,
    statement,
    swap,
    wrap,
)


def hoist(call: str) -> Maker:
    """The statement above takes a part of the one that it stands above."""
    return lambda text: InsertBefore(
        statement(text, f"{call}.backward()"), (Template("loss = $0", (at(text, call),)),)
    )


CASES: list[Case] = [
    ("a name", "a.b()\n", [swap("a", "f($0)")], "f(a).b()\n"),
    ("a name by a constant", "f(a)\n", [swap("a", "1")], "f(1)\n"),
    ("a call and no statement", "f(a)\n", [swap("f(a)", "g($0)")], "g(f(a))\n"),
    ("a call inside the same call", "f(f(a))\n", [swap("f(a)", "g($0)")], "f(g(f(a)))\n"),
    ("two parts", "f(a, b)\n", [swap("f(a, b)", "g($1, $0)", "a", "b")], "g(b, a)\n"),
    ("one part twice", "f(a)\n", [swap("f(a)", "$0 + $0", "a")], "a + a\n"),
    (
        "a sum before an attribute",
        "f(a + b)\n",
        [swap("a + b", "$0.float()")],
        "f((a + b).float())\n",
    ),
    ("a call before an attribute", "f(g(a))\n", [swap("g(a)", "$0.float()")], "f(g(a).float())\n"),
    ("a product in a sum", "f(a * b)\n", [swap("a * b", "$0 + 1")], "f(a * b + 1)\n"),
    ("a sum in a product", "f(a + b)\n", [swap("a + b", "$0 * 2")], "f((a + b) * 2)\n"),
    ("a sum right of a minus", "f(a + b)\n", [swap("a + b", "1 - $0")], "f(1 - (a + b))\n"),
    ("a sum left of a minus", "f(a + b)\n", [swap("a + b", "$0 - 1")], "f(a + b - 1)\n"),
    ("a negative base", "f(-a)\n", [swap("-a", "$0 ** 2")], "f((-a) ** 2)\n"),
    ("a negative exponent", "f(-a)\n", [swap("-a", "2 ** $0")], "f(2 ** -a)\n"),
    ("a number before an attribute", "f(1)\n", [swap("1", "$0.real")], "f((1).real)\n"),
    ("a comparison under not", "f(a < b)\n", [swap("a < b", "not $0")], "f(not a < b)\n"),
    ("an or in an and", "f(a or b)\n", [swap("a or b", "$0 and c")], "f((a or b) and c)\n"),
    ("a comparison in a comparison", "f(a < b)\n", [swap("a < b", "$0 == c")], "f((a < b) == c)\n"),
    (
        "a condition in a condition",
        "f(a if b else c)\n",
        [swap("a if b else c", "$0 if d else e")],
        "f((a if b else c) if d else e)\n",
    ),
    ("a lambda", "f(lambda: a)\n", [swap("lambda: a", "$0()")], "f((lambda: a)())\n"),
    (
        "an await",
        "async def f(): g(await a)\n",
        [swap("await a", "$0.b")],
        "async def f(): g((await a).b)\n",
    ),
    ("a walrus", "f((a := b))\n", [swap("a := b", "$0.c")], "f((a := b).c)\n"),
    (
        "an argument in parentheses",
        "f((a + b))\n",
        [swap("f((a + b))", "g($0)", "a + b")],
        "g(a + b)\n",
    ),
    ("a sum as an element", "a.b\n", [swap("a", "x + y")], "(x + y).b\n"),
    ("a sum as a factor", "a * b\n", [swap("a", "x + y")], "(x + y) * b\n"),
    (
        "needed parentheses go when not needed",
        "(a + b).sum().backward()\n",
        [swap("a + b", "scale($0)")],
        "scale(a + b).sum().backward()\n",
    ),
    (
        "parentheses stay after a word",
        "def f():\n    return(a + b).c\n",
        [swap("a + b", "g($0)")],
        "def f():\n    return(g(a + b)).c\n",
    ),
    ("parentheses of taste stay", "x = (a)\n", [swap("a", "f($0)")], "x = (f(a))\n"),
    (
        "a line break in parentheses stays",
        "x = (\n    a +\n    b\n)\n",
        [swap("a +\n    b", "f($0)")],
        "x = (\n    f(a +\n    b)\n)\n",
    ),
    ("a tuple with its parentheses", "x = (a, b)\n", [swap("(a, b)", "f($0)")], "x = f((a, b))\n"),
    ("a tuple without parentheses", "x = a, b\n", [swap("a, b", "f($0)")], "x = f((a, b))\n"),
    (
        "a tuple in more parentheses",
        "x = ((a, b))\n",
        [swap("(a, b)", "f($0)")],
        "x = (f((a, b)))\n",
    ),
    ("an empty tuple", "x = ()\n", [swap("()", "f($0)")], "x = f(())\n"),
    (
        "a generator",
        "f(x for x in y)\n",
        [swap("(x for x in y)", "list($0)")],
        "f(list(x for x in y))\n",
    ),
    (
        "a generator beside another argument",
        "f(x for x in y)\n",
        [swap("(x for x in y)", "g($0, 1)")],
        "f(g((x for x in y), 1))\n",
    ),
    ("an element of a subscript", "a[b + c]\n", [swap("b + c", "$0 * 2")], "a[(b + c) * 2]\n"),
    (
        "inner formatting stays",
        "x = f(a,  # one\n      b )\n",
        [swap("f(a,  # one\n      b )", "g($0)")],
        "x = g(f(a,  # one\n      b ))\n",
    ),
    (
        "a part loses its brackets",
        "f(\n    a\n    + b\n)\n",
        [replace("f", "x = $0", parts=("a\n    + b",))],
        "x = (a\n    + b)\n",
    ),
    ("inside an f-string", 'f"{a}"\n', [swap("a", "$0.b")], 'f"{a.b}"\n'),
    (
        "inside a decorator",
        "@d(a)\ndef f(): pass\n",
        [swap("a", "g($0)")],
        "@d(g(a))\ndef f(): pass\n",
    ),
    (
        "inside a decorator in a class",
        "class C:\n    @d(a)\n    def f(): pass\n",
        [swap("a", "g($0)")],
        "class C:\n    @d(g(a))\n    def f(): pass\n",
    ),
    ("inside a default", "def f(a=b): pass\n", [swap("b", "g($0)")], "def f(a=g(b)): pass\n"),
    (
        "inside a condition",
        "if a:\n    b\nelif c:\n    d\n",
        [swap("c", "$0 or e")],
        "if a:\n    b\nelif c or e:\n    d\n",
    ),
    (
        "one in the other",
        "f(a.b)\n",
        [swap("a.b", "g($0)"), swap("a|.b", "h($0)")],
        "f(g(h(a).b))\n",
    ),
    ("behind non-ASCII", "é = 'ü'; f(ñ)\n", [swap("ñ", "g($0)")], "é = 'ü'; f(g(ñ))\n"),
    ("a statement", "a\nb\n", [replace("a", "x")], "x\nb\n"),
    ("a statement by two", "a  # c\nb\n", [replace("a", "x", "y")], "x\ny  # c\nb\n"),
    (
        "a statement with comments above",
        "z\n\n# c\na\n",
        [replace("a", "x", "y")],
        "z\n\n# c\nx\ny\n",
    ),
    ("a statement on a line of two", "a; b\n", [replace("b", "x")], "a; x\n"),
    ("a statement on a line of two, by two", "a; b; c\n", [replace("b", "x", "y")], "a\nx\ny\nc\n"),
    ("a statement in a one-line suite", "if c: a  # d\n", [replace("a", "x")], "if c: x  # d\n"),
    (
        "a statement in a one-line suite, by two",
        "if c: a  # d\n",
        [replace("a", "x", "y")],
        "if c:\n    x\n    y  # d\n",
    ),
    (
        "a part in a new block",
        "f(g(a), b)  # c\n",
        [replace("f", "with amp:\n    loss = $0", "loss.backward()", parts=("g(a)",))],
        "with amp:\n    loss = g(a)\nloss.backward()  # c\n",
    ),
    (
        "a statement as a part",
        "# d\na = b  # c\n",
        [replace("a", "if x:\n    $0", parts=("a = b",))],
        "# d\nif x:\n    a = b  # c\n",
    ),
    (
        "compound statements as parts",
        "if x:\n    for a in b:\n        c\n    # e\n    d\n",
        [replace("if", "with y:\n    $1\n    $0", parts=("for a in b:\n        c", "d"))],
        "with y:\n    # e\n    d\n    for a in b:\n        c\n",
    ),
    (
        "a comment above an if and else",
        "a  # c\n",
        [replace("a", "if x:\n    y\nelse:\n    z")],
        "# c\nif x:\n    y\nelse:\n    z\n",
    ),
    (
        "a comment behind a one-line block",
        "a  # c\nb\n",
        [replace("a", "if x: y")],
        "# c\nif x: y\nb\n",
    ),
    (
        "a sum of a condition",
        "f(a if b else c)\n",
        [swap("a if b else c", "f'{$0}'")],
        "f(f'{a if b else c}')\n",
    ),
    (
        "a lambda in an f-string",
        "f(lambda: a)\n",
        [swap("lambda: a", "f'{$0}'")],
        "f(f'{(lambda: a)}')\n",
    ),
    (
        "a condition behind a star",
        "f(a if b else c)\n",
        [swap("a if b else c", "g(*$0)")],
        "f(g(*(a if b else c)))\n",
    ),
    (
        "a blank line in a template",
        "if c:\n    a\n",
        [replace("a", "x\n\ny")],
        "if c:\n    x\n\n    y\n",
    ),
    (
        "a match by a match",
        "match a:\n    case 1: b\nc\n",
        [replace("match", "$0\nd", parts=("match a:\n    case 1: b",))],
        "match a:\n    case 1: b\nd\nc\n",
    ),
    ("a statement removed", "a\nb\n", [replace("a")], "b\n"),
    ("the only statement removed", "if x:\n    a\nb\n", [replace("a")], "if x:\n    pass\nb\n"),
    (
        "the only statement of a line removed",
        "if x: a\nb\n",
        [replace("a")],
        "if x:\n    pass\nb\n",
    ),
    ("one of two on a line removed", "a; b  # c\n", [replace("b")], "a  # c\n"),
    ("the first of two on a line removed", "a; b  # c\n", [replace("a")], "b  # c\n"),
    (
        "comments above a removed statement stay",
        "x\n\n# c\na\nb\n",
        [replace("a")],
        "x\n\n# c\nb\n",
    ),
    (
        "comments above the last statement stay",
        "if x:\n    b\n    # c\n    a\n",
        [replace("a")],
        "if x:\n    b\n    # c\n",
    ),
    ("blank lines are not doubled", "x\n\na\n\nb\n", [replace("a")], "x\n\nb\n"),
    (
        "replaced inside a wrap",
        "a\nb\n",
        [wrap("a", "b"), replace("a", "x", "y")],
        "with amp:\n    x\n    y\n    b\n",
    ),
    (
        "replaced, with inserts",
        "a\n",
        [replace("a", "x"), before("a", "p"), after("a", "q")],
        "p\nx\nq\n",
    ),
    (
        "an edit inside a part",
        "f(g(a))\n",
        [replace("f", "x = $0", parts=("g(a)",)), swap("a", "h($0)")],
        "x = g(h(a))\n",
    ),
    (
        "an edit of a part itself",
        "f(g(a))\n",
        [replace("f", "x = $0", parts=("g(a)",)), swap("g(a)", "h($0)")],
        "x = h(g(a))\n",
    ),
    (
        "hoisted above its statement",
        "g(a).backward()\n",
        [hoist("g(a)"), swap("g(a)", "loss")],
        "loss = g(a)\nloss.backward()\n",
    ),
    ("a compound statement", "if x:\n    a\nb\n", [replace("if", "y")], "y\nb\n"),
    (
        "nothing changes when a thing becomes itself",
        "x = ( a +  b )\n",
        [swap("a +  b", "$0")],
        "x = ( a +  b )\n",
    ),
    ("nor a statement", "a  # c\n", [replace("a", "$0", parts=("a",))], "a  # c\n"),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_replace(case: Case) -> None:
    check(case)
