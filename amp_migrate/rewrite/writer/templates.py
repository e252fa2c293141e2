"""Templates become nodes: original nodes fill `$0`, `$1`, ..., blocks get the indentation of their
new home.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import libcst as cst

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import Template
from amp_migrate.rewrite.writer.conflicts import HOLE
from amp_migrate.rewrite.writer.errors import WriteError
from amp_migrate.rewrite.writer.precedence import fit
from amp_migrate.rewrite.writer.reindent import is_blank
from amp_migrate.rewrite.writer.walk import Transformer

_NAME: Final = re.compile(r"__amp_migrate_part_(\d+)__")

Part = Callable[[Span, bool], cst.CSTNode]
"""Gives the (edited) node at a span; the flag asks for a whole statement, where there is one, not
for an expression.
"""


def statements(
    template: Template, part: Part, unit: str, newline: str | None
) -> list[Any]:
    """The statements of a template, ready to be put into a block.

    Args:
        unit: one level of indentation there.
        newline: the line end to use; None is the module's own.

    Raises:
        WriteError: the template is no Python.
    """
    module = _parsed(cst.parse_module, template.text)
    filled = module.visit(_Filler(template, part, unit, newline))
    assert isinstance(filled, cst.Module)
    body = list(filled.body)
    if body and filled.header:
        body[0] = body[0].with_changes(
            leading_lines=[*filled.header, *body[0].leading_lines]
        )
    return body


def expression(
    template: Template, part: Part, newline: str | None = None
) -> Any:
    """The expression of a template; raises WriteError where it is no Python."""
    root = _parsed(cst.parse_expression, template.text)
    filler = _Filler(template, part, "", newline)
    if (
        isinstance(root, cst.Name)
        and (found := filler.part_of(root)) is not None
    ):
        return found
    return root.visit(filler)


@lru_cache(maxsize=256)
def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    """Templates come again; a visitor makes all nodes anew, so none of these gets into a module."""
    try:
        return parse(HOLE.sub(r"__amp_migrate_part_\1__", text))
    except cst.ParserSyntaxError as error:
        raise WriteError(f"not a template: {text!r}") from error


_FILLED = frozenset(
    (
        cst.Name,
        cst.IndentedBlock,
        cst.EmptyLine,
        cst.Newline,
        cst.SimpleStatementLine,
    )
)
"""What changes in a template: most nodes are whitespace."""


class _Filler(Transformer):
    def __init__(
        self, template: Template, part: Part, unit: str, newline: str | None
    ) -> None:
        super().__init__()
        self.template = template
        self.part = part
        self.unit = unit
        self.newline = newline
        self.ancestors: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.ancestors.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        self.ancestors.pop()
        if type(original_node) not in _FILLED:
            return updated_node
        match original_node:
            case cst.Name():
                found = self.part_of(original_node)
                return (
                    updated_node
                    if found is None
                    else fit(found, original_node, self.ancestors)
                )
            case cst.IndentedBlock():
                return updated_node.with_changes(indent=self.unit)
            case cst.EmptyLine() if is_blank(original_node):
                return updated_node.with_changes(indent=False)
            case cst.Newline():
                return updated_node.with_changes(value=self.newline)
            case cst.SimpleStatementLine(
                body=[cst.Expr(value=cst.Name() as name)]
            ):
                return self._statement(name, updated_node)
        return updated_node

    def part_of(self, name: cst.Name) -> cst.BaseExpression | None:
        hole = _NAME.fullmatch(name.value)
        if hole is None:
            return None
        node = self.part(self._span(hole), False)
        if isinstance(node, cst.BaseExpression):
            return node
        match self.ancestors:
            case [*_, cst.SimpleStatementLine(body=[_]), cst.Expr()]:
                return None
        raise WriteError(
            f"{self.template.text!r}: a statement cannot stand for {hole[0]}"
        )

    def _statement(self, name: cst.Name, line: cst.SimpleStatementLine) -> Any:
        hole = _NAME.fullmatch(name.value)
        if hole is None:
            return line
        node: Any = self.part(self._span(hole), True)
        if isinstance(node, cst.BaseStatement):
            above = [*line.leading_lines, *getattr(node, "leading_lines", ())]
            return node.with_changes(leading_lines=above)
        return line

    def _span(self, hole: re.Match[str]) -> Span:
        index = int(hole[1])
        if index >= len(self.template.parts):
            raise WriteError(f"{self.template.text!r} has no part ${index}")
        return self.template.parts[index]


def without_semicolon(node: Any) -> Any:
    """A small statement as the last of its line."""
    return node.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)


def newline_of(statement: Any) -> str | None:
    """The line end that a statement was written with; None is the module's own."""
    if isinstance(statement, cst.BaseCompoundStatement):
        statement = getattr(statement, "body", None)
    for name in ("trailing_whitespace", "header"):
        whitespace = getattr(statement, name, None)
        if isinstance(whitespace, cst.TrailingWhitespace):
            return whitespace.newline.value
    return None
