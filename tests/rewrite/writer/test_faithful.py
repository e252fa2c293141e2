"""What is not edited stays byte for byte, and every node of `ast` is found."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

import pytest

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import ReplaceExpression, Template
from amp_migrate.rewrite.writer import SpanNotFound, UnparsableModule, WriteError, apply
from amp_migrate.rewrite.writer.locate import locate, parse
from tests.rewrite.writer.spots import (
    Maker,
    applied,
    argument,
    entry,
    nodes,
    parameter,
    replace,
    swap,
)

TEXTS = {
    "empty": "",
    "a line end": "\n",
    "a comment": "# only",
    "no line end": "f(a)",
    "CRLF": "if a:\r\n    b(c)\r\n",
    "mixed line ends": "if a:\r\n    b(c)\n\r\nd\n",
    "tabs": "def f():\n\tif a:\n\t\tb\n",
    "tabs and spaces": "def f():\n\tif a:\n\t    b\n",
    "form feed": "a = 1\n\x0c\ndef f():\n    b\n",
    "two widths": "if a:\n  b\nif c:\n        d\n",
    "white space at line ends": "a = 1  \n  \nif b:   \n    c\t\n    \n",
    "semicolons": "a; b ;c;\nif d: e; f;\n",
    "continuations": "a = b + \\\n    c\nif a and \\\n  b: pass\n",
    "strings": "a = '''x\n\ty\r\n  z'''; b = 'x\\\ny'\n",
    "non-ASCII": "é = 'ü' + f(λ, '漢字')  # ß\nж = é\n",
    "parentheses": "a = ( (b) )\nc = ((d, e), (), (f,))\nfor (g) in (h): (i)\n",
    "generators": "f(x for x in y)\nf( (x for x in y) , z)\nf((x for x in y))\n",
    "decorators": "@a(b)\n\n# c\n@d\nclass E:\n    @f.g(h)\n    async def i(j=k): await (l)\n",
    "comments at odd columns": "if a:\n# b\n        # c\n    d\n  # e\nf\n",
    "everything": "async def f(a, /, b: c = d, *e, g, **h) -> i:\n    async with j as k, l: yield (m := n)\n"
    "    return [o async for p in q if r], {**s}, not -t ** u, v[w:x, y], lambda z: z\n",
    "match": "match a:\n    case {'b': c}: d\n    case [e, *f] if g:\n        h\n",
    "f-strings": "a = f'{b!r:>{c}} {d=}' 'e' rf'\\{f}'\n",
    "try": "try:\n    a\nexcept (B, C) as d: e\nelse: f\nfinally:\n    g\n",
    "global": "def f():\n    global a; nonlocal_ = 1\n    del a, b[0]; assert c, d\n    raise e from f\n",
}
STANDARD_LIBRARY = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[::25]


FILES = [*TEXTS.items(), *((path.name, path.read_bytes().decode()) for path in STANDARD_LIBRARY)]
each_file = pytest.mark.parametrize(
    "text", [text for _, text in FILES], ids=[name for name, _ in FILES]
)


def expressions(text: str) -> list[Span]:
    """The spans of the expressions that LibCST has nodes for."""
    tree = ast.parse(text)
    hidden: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            hidden.update(set(ast.walk(node)) - {node})
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            hidden.add(node.slice)
        elif isinstance(node, ast.Slice | ast.Starred):
            hidden.add(node)
        elif isinstance(node, ast.match_case):
            hidden.update(ast.walk(node.pattern))
    return [
        span
        for node, span in nodes(tree, text)
        if isinstance(node, ast.expr) and node not in hidden
    ]


@each_file
def test_every_node_is_found(text: str) -> None:
    tree = ast.parse(text)
    statements = [span for node, span in nodes(tree, text) if isinstance(node, ast.stmt)]
    located = locate(parse(text), [*statements, *expressions(text)], text)
    assert set(statements) <= set(located.statements)
    assert set(expressions(text)) <= set(located.expressions)


@each_file
def test_an_expression_by_itself_changes_nothing(text: str) -> None:
    names = [span for span in expressions(text) if text.encode()[span.start : span.end].isalnum()]
    same = [
        ReplaceExpression(span, Template("$0", (span,)))
        for span in names[:: max(len(names) // 20, 1)]
    ]
    assert apply(text, same) == text
    assert apply(text, []) == text


@pytest.mark.parametrize(
    "end", ["    \n   \n", "\n   \n", "  ", "\n\n", "    \r\n\r\n   ", "\f\n  \n"]
)
def test_blanks_behind_the_last_statement_stay(end: str) -> None:
    text = "def f():\n    if a:\n        b\n\n    c\n" + end
    assert applied(text, swap("c", "d")) == text.replace("    c\n", "    d\n")


def test_carriage_returns_alone_are_refused() -> None:
    with pytest.raises(UnparsableModule, match="carriage return"):
        apply("a\rb\r", [])


def test_what_does_not_parse_is_named_with_its_line() -> None:
    with pytest.raises(UnparsableModule, match="line 2"):
        apply("a = 1\nb = = 2\n", [])


def test_deep_nesting_is_an_error_of_its_own() -> None:
    text = "a = " + "-" * 1500 + "1\n"
    with pytest.raises(UnparsableModule, match="deep"):
        applied(text, swap("a", "b"))


def test_deep_nesting_beside_the_edits_is_none() -> None:
    deep = "a = " + "-" * 900 + "1\n"
    assert applied(deep + "c = 1\n", swap("c", "d")) == deep + "d = 1\n"


@pytest.mark.parametrize("depth", range(60, 200, 5))
def test_nesting_at_the_limit_is_done_or_refused(depth: int) -> None:
    text = "f(a" + ".b()" * depth + ")\n"
    try:
        output = applied(text, swap("a", "g($0)"))
    except UnparsableModule:
        return
    assert output == text.replace("a", "g(a)")


@pytest.mark.parametrize(
    "maker",
    [argument("f(d)", "s", "="), entry("{}", "k", "="), swap("d", "$"), parameter("def", "s", "=")],
)
def test_an_addition_that_is_no_python(maker: Maker) -> None:
    with pytest.raises(WriteError, match=r"Python|template"):
        applied("f(d)\n{}\ndef g(): pass\n", maker)


@pytest.mark.parametrize("span", [Span(0, 2), Span(1, 3), Span(4, 6), Span(90, 95)])
def test_a_span_that_meets_no_node(span: Span) -> None:
    with pytest.raises(SpanNotFound, match=f"bytes {span.start} to {span.end}"):
        apply("abc = f(d)\n", [ReplaceExpression(span, Template("x"))])


def test_a_template_that_is_no_python() -> None:
    text = "a\n"
    with pytest.raises(WriteError, match="not a template"):
        apply(text, [swap("a", "f(")(text)])


def test_a_statement_cannot_stand_for_an_expression() -> None:
    with pytest.raises(WriteError, match="a statement cannot stand"):
        applied("a = b\nc\n", replace("c", "f($0)", parts=("a = b",)))


def test_a_template_without_its_part() -> None:
    text = "a\n"
    with pytest.raises(WriteError, match=r"no part \$1"):
        apply(text, [swap("a", "f($1)")(text)])
