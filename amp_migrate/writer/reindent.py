"""What LibCST does not move when a statement goes one level deeper."""

from __future__ import annotations

import re
from typing import Any, Final

import libcst as cst

_EMPTY: Final = re.compile(r"^\r?$", re.MULTILINE)
_CONTINUED: Final = re.compile(r"(\\\r?\n)")


def indented(statement: Any, unit: str) -> Any:
    """`statement` made ready for a block that is deeper by `unit`.

    LibCST moves all lines but those continued by a backslash. And it takes an empty line at the top level for one that is
    indented by nothing, which would be given spaces.
    """
    code = cst.Module(body=()).code_for_node(statement)
    return statement.visit(_Deeper(unit)) if "\\" in code or _EMPTY.search(code) else statement


def is_empty(line: cst.EmptyLine) -> bool:
    """True for a line without any character, at the top level at least."""
    return line.indent and line.comment is None and not line.whitespace.value


class _Deeper(cst.CSTTransformer):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit
        self.blocks = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.blocks += isinstance(node, cst.IndentedBlock)
        return True

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        match original_node:
            case cst.IndentedBlock():
                self.blocks -= 1
            case cst.SimpleWhitespace(value=value) if "\\" in value:
                return updated_node.with_changes(value=_CONTINUED.sub(lambda match: match[1] + self.unit, value))
            case cst.EmptyLine() if not self.blocks and is_empty(original_node):
                return updated_node.with_changes(indent=False)
        return updated_node
