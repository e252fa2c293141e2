"""Random edits of random programs: what was added can be taken out again, and comments keep their
order.
"""

from __future__ import annotations

import ast
import io
import tokenize
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import (
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceExpression,
    Template,
    WrapStatements,
)
from amp_migrate.rewrite.writer import apply
from tests.rewrite.writer.spots import nodes

SIMPLE = [
    "a = b",
    "f(é, 'ü')",
    "g(a,\n{i}  # in\n{i}  b)",
    "x = '''one\n two'''",
    "y = a + \\\n{i}   b",
]
JOINED = [
    "a; b = c; d",
    "pass;",
    "if a: b",
    "for a in b: c; d",
    "if a: b  # why\n{i}else: c",
    "def f(a=b): return (a)",
    "while a: b;",
]
HEADS = [
    "if a:",
    "for a in b:  # each",
    "@d(e)\n{i}def f(a):",
    "with a as b:",
    "try:",
    "if (a and\n\n{i}   b):",
]
COMMENTS = [
    "",
    "",
    "",
    "\n",
    "{i}# one\n",
    "\n{i}# two\n",
    "{i}# three\n\n",
    "\n\n# zero\n",
    "  \n",
]


@st.composite
def blocks(draw: st.DrawFn, indent: str, depth: int, lines: list[str]) -> str:
    """Some statements at `indent`."""
    unit = draw(st.sampled_from(["  ", "    ", "\t"]))
    text = ""
    for _ in range(draw(st.integers(1, 3))):
        text += draw(st.sampled_from(COMMENTS)).format(i=indent)
        if depth and draw(st.booleans()):
            head = draw(st.sampled_from(HEADS)).format(i=indent)
            text += f"{indent}{head}\n{draw(blocks(indent + unit, depth - 1, lines))}"
            text += f"{indent}finally:\n{indent} z\n" if head == "try:" else ""
        else:
            line = draw(st.sampled_from(lines)).format(i=indent)
            text += f"{indent}{line}{draw(st.sampled_from(['', '  # end', ' ']))}\n"
    return text + draw(st.sampled_from(["", "", "{i}# last\n"])).format(i=indent)


@st.composite
def edited(draw: st.DrawFn, lines: list[str]) -> tuple[str, list[Edit]]:
    """A program of `lines`, and wraps that do not cross, inserts and swaps in it."""
    text = draw(blocks("", 2, lines)) + draw(st.sampled_from(["", "end", "# end"]))
    text = text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"])))
    tree = ast.parse(text)
    spans = dict(nodes(tree, text))
    edits: list[Edit] = []
    for node in ast.walk(tree):
        for body in _bodies(node):
            edits += draw(_about(body, spans))
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and draw(st.integers(0, 5)) == 0
        ):
            edits.append(ReplaceExpression(spans[node], Template("swapped($0)", (spans[node],))))
    return text, draw(st.permutations(edits))


@st.composite
def _about(draw: st.DrawFn, body: list[ast.stmt], spans: dict[ast.AST, Span]) -> list[Edit]:
    edits: list[Edit] = []
    for statement in body:
        new = (Template(draw(st.sampled_from(["added()", "if added:\n    added()"]))),)
        kinds: tuple[type[InsertBefore | InsertAfter], ...] = draw(
            st.sampled_from(
                [(), (), (), (InsertBefore,), (InsertAfter,), (InsertBefore, InsertAfter)]
            )
        )
        edits.extend(kind(spans[statement], new) for kind in kinds)
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=4, unique=True)))
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        edits.append(WrapStatements(spans[body[start]], spans[body[end - 1]], "added"))
        if draw(st.booleans()):
            edits.append(WrapStatements(spans[body[start]], spans[body[start]], "added as inner"))
    return edits


def _bodies(node: ast.AST) -> list[list[ast.stmt]]:
    found = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [body for body in found if isinstance(body, list) and body]


class _Erase(ast.NodeTransformer):
    def visit_With(self, node: ast.With) -> Any:
        self.generic_visit(node)
        return node.body if _is_added(node.items[0].context_expr) else node

    def visit_If(self, node: ast.If) -> Any:
        return None if _is_added(node.test) else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Call) and _is_added(node.value.func):
            return None
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        return (
            node.args[0] if isinstance(node.func, ast.Name) and node.func.id == "swapped" else node
        )


def _is_added(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "added"


def _comments(text: str) -> list[str]:
    return [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(edited(SIMPLE + JOINED))
def test_what_was_added_can_be_erased(case: tuple[str, list[Edit]]) -> None:
    text, edits = case
    output = apply(text, edits)
    assert ast.dump(_Erase().visit(ast.parse(output))) == ast.dump(ast.parse(text))
    assert _comments(output) == _comments(text)
    if "\r\n" in text:
        assert "\n" not in output.replace("\r\n", "")


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(edited(SIMPLE))
def test_no_line_is_reformatted(case: tuple[str, list[Edit]]) -> None:
    """With wraps and inserts alone, lines only move right, as long as none is to be divided."""
    text, edits = case
    output = apply(text, [edit for edit in edits if not isinstance(edit, ReplaceExpression)])
    kept = [line.strip() for line in output.splitlines() if "added" not in line]
    assert kept == [line.strip() for line in text.splitlines()]
    assert not [
        line
        for line in output.splitlines()
        if line and not line.strip() and line not in text.splitlines()
    ]
