"""Edits written by the text they are about, and a check that every output is Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from textwrap import dedent

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import (
    AddArgument,
    AddDictEntry,
    AddImport,
    AddParameter,
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceExpression,
    ReplaceStatement,
    Template,
    WrapStatements,
)
from amp_migrate.rewrite.writer import apply

Maker = Callable[[str], Edit]
Case = tuple[str, str, list[Maker], str]
"""Name, text before, edits, text after."""


def at(text: str, snippet: str) -> Span:
    """The span of the only node that reads `snippet`; `<snippet>|<rest>` marks it by what follows
    it.
    """
    wanted, _, rest = snippet.partition("|")
    source = text.encode()
    spans = {
        span
        for _, span in nodes(ast.parse(text), text)
        if source[span.start : span.end] == wanted.encode()
        and source[span.end :].startswith(rest.encode())
    }
    assert len(spans) == 1, f"{snippet!r} is there {len(spans)} times"
    return spans.pop()


def statement(text: str, snippet: str) -> Span:
    """The span of the only statement that starts with `snippet`, or reads so."""
    source = text.encode()
    spans = [span for node, span in nodes(ast.parse(text), text) if isinstance(node, ast.stmt)]
    spans = [span for span in spans if source[span.start : span.end].startswith(snippet.encode())]
    if len(spans) > 1:
        spans = [span for span in spans if source[span.start : span.end] == snippet.encode()]
    assert len(spans) == 1, f"{snippet!r} starts {len(spans)} statements"
    return spans[0]


def nodes(tree: ast.AST, text: str) -> Iterator[tuple[ast.AST, Span]]:
    """Statements and expressions with their spans."""
    lines = [0, *(i + 1 for i, byte in enumerate(text.encode()) if byte == ord("\n"))]
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start, end = (
                lines[node.lineno - 1] + node.col_offset,
                lines[node.end_lineno - 1] + node.end_col_offset,
            )
            yield node, Span(start, end)


def block(text: str) -> str:
    """A dedented literal that starts with a line break."""
    return dedent(text).removeprefix("\n")


def applied(text: str, *makers: Maker) -> str:
    """The edited text, which must parse."""
    output = apply(text, [make(text) for make in makers])
    ast.parse(output)
    return output


def check(case: Case) -> None:
    """Compares, line ends included."""
    _, before, makers, after = case
    assert applied(block(before), *makers).split("\n") == block(after).split("\n")


def wrap(first: str, last: str | None = None, header: str = "amp") -> Maker:
    return lambda text: WrapStatements(
        statement(text, first), statement(text, last or first), header
    )


def before(anchor: str, *lines: str) -> Maker:
    return lambda text: InsertBefore(statement(text, anchor), tuple(map(Template, lines)))


def after(anchor: str, *lines: str) -> Maker:
    return lambda text: InsertAfter(statement(text, anchor), tuple(map(Template, lines)))


def template(text: str, pattern: str, parts: tuple[str, ...]) -> Template:
    return Template(pattern, tuple(at(text, part) for part in parts))


def replace(target: str, *patterns: str, parts: tuple[str, ...] = ()) -> Maker:
    """A statement becomes others; each pattern sees all parts."""
    return lambda text: ReplaceStatement(
        statement(text, target), tuple(template(text, p, parts) for p in patterns)
    )


def swap(target: str, pattern: str, *parts: str) -> Maker:
    """An expression becomes another; without parts, `$0` is the target itself."""
    return lambda text: ReplaceExpression(
        at(text, target), template(text, pattern, parts or (target,))
    )


def bring(module: str, name: str | None = None) -> Maker:
    return lambda _: AddImport(module, name)


def parameter(function: str, name: str = "scaler", default: str | None = None) -> Maker:
    return lambda text: AddParameter(statement(text, function), name, default)


def argument(call: str, name: str = "scaler", value: str = "scaler") -> Maker:
    return lambda text: AddArgument(at(text, call), name, value)


def entry(display: str, key: str = '"scaler"', value: str = "scaler.state_dict()") -> Maker:
    return lambda text: AddDictEntry(at(text, display), key, value)
