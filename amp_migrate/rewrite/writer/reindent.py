"""What LibCST does not move well when a statement goes one level deeper."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import libcst as cst

from amp_migrate.rewrite.writer.walk import Transformer

_BLANK: Final = re.compile(r"^[ \t\f]*\r?$", re.MULTILINE)
_CONTINUED: Final = re.compile(r"(\\\r?\n)")


@dataclass(frozen=True)
class Depth:
    """Where a block stands: its indentation, one level more (`unit`), and the module's default for
    one level.
    """

    indent: str
    unit: str
    default: str


def indented(statement: Any, depth: Depth) -> Any:
    """`statement` of the block at `depth`, made ready for a block that is one unit deeper.

    LibCST moves all lines but those continued by a backslash, and blank ones too, which would get
    spaces at their end.
    """
    code = cst.Module(body=()).code_for_node(statement)
    return (
        statement.visit(_Deeper(depth))
        if "\\" in code or _BLANK.search(code)
        else statement
    )


def is_blank(line: cst.EmptyLine) -> bool:
    """True for a line without comment that LibCST indents."""
    return line.indent and line.comment is None


class _Deeper(Transformer):
    def __init__(self, depth: Depth) -> None:
        super().__init__()
        self.depth = depth
        self.indents = [depth.indent]

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.IndentedBlock):
            self.indents.append(
                self.indents[-1]
                + (self.depth.default if node.indent is None else node.indent)
            )
        return True

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        match original_node:
            case cst.IndentedBlock():
                self.indents.pop()
            case cst.SimpleWhitespace(value=value) if "\\" in value:
                return updated_node.with_changes(
                    value=_CONTINUED.sub(
                        lambda match: match[1] + self.depth.unit, value
                    )
                )
            case cst.EmptyLine() if is_blank(original_node):
                blank = self.indents[-1] + original_node.whitespace.value
                return updated_node.with_changes(
                    indent=False, whitespace=cst.SimpleWhitespace(blank)
                )
        return updated_node
